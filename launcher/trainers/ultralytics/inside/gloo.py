"""Lets Ultralytics train in several processes on a CPU, over gloo: in trials only, for the tests. Its own runs know cards alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from launcher.trainers.ultralytics.native import yolo_ranks


class OverGloo:
    """Beside one of Ultralytics' trainers, before it."""

    @property
    def world_size(self) -> int:
        """Ultralytics would set 0 on a CPU."""
        return yolo_ranks.WORLD_SIZE

    @world_size.setter
    def world_size(self, value: int) -> None:
        pass

    def _setup_ddp(self) -> None:
        """It knows accelerators only, here, where it wraps the model, and where it validates the best weights."""
        import torch
        from ultralytics.engine import validator

        plain = validator.AutoBackend

        class OnCpu(torch.nn.parallel.DistributedDataParallel):  # type: ignore[misc]
            def __init__(self, module: Any, device_ids: Any = None, **options: Any) -> None:
                super().__init__(module, device_ids=None, **options)

        torch.nn.parallel.DistributedDataParallel = OnCpu
        validator.get_torch_device_backend = lambda _: SimpleNamespace(current_device=lambda: 0)
        validator.AutoBackend = lambda **options: plain(**{**options, "device": torch.device("cpu")})
        torch.distributed.init_process_group("gloo")
