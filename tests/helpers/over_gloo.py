"""Runs Ultralytics' own program, given as words, in several processes on a CPU over gloo: its runs know cards alone."""

from __future__ import annotations

import os
import runpy
import sys
from types import SimpleNamespace
from typing import Any

import torch
from ultralytics.engine import validator
from ultralytics.engine.trainer import BaseTrainer

WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


def over_gloo(_: Any) -> None:
    """Ultralytics knows accelerators only, here, where it wraps the model, and where it validates the best weights."""
    plain: Any = validator.AutoBackend

    class OnCpu(torch.nn.parallel.DistributedDataParallel):  # type: ignore[misc]
        def __init__(self, module: Any, device_ids: Any = None, **options: Any) -> None:
            super().__init__(module, device_ids=None, **options)

    torch.nn.parallel.DistributedDataParallel = OnCpu  # type: ignore[misc]
    validator.get_torch_device_backend = lambda _: SimpleNamespace(current_device=lambda: 0)
    validator.AutoBackend = lambda **options: plain(**{**options, "device": torch.device("cpu")})
    torch.distributed.init_process_group("gloo")


if __name__ == "__main__":
    if WORLD_SIZE > 1:
        BaseTrainer.world_size = property(lambda _: WORLD_SIZE, lambda _, value: None)  # Ultralytics would set 0 on a CPU
        BaseTrainer._setup_ddp = over_gloo
    sys.argv[:] = sys.argv[1:]  # Ultralytics keeps the list
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
