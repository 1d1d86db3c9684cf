"""Lets the processes of a training on several cards (torchrun) keep one run, and the script around it go on in one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
RANK = int(os.environ.get("RANK", "-1")) if WORLD_SIZE > 1 else -1
"""-1: a process by itself, as in Ultralytics."""
_FOLDER = "autofit_save_dir"


def _store() -> Any:
    """torchrun's own store, by which its processes have found each other."""
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(*address, is_master=False, timeout=timedelta(hours=1))


def tell_folder(folder: Any) -> None:
    """Tells the other ranks where rank 0 keeps the run."""
    if RANK == 0:
        _store().set(_FOLDER, str(Path(folder).absolute()))


def in_the_folder_of_rank_0(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """A trainer's settings. Where a folder of the same name is there already, Ultralytics counts on in rank 0 and not in the others."""
    found = dict(settings or {})
    if RANK < 1 or found.get("save_dir") or found.get("resume"):
        return found
    folder = Path(_store().get(_FOLDER).decode())
    return {**found, "project": str(folder.parent), "name": folder.name, "exist_ok": True}


def go_on_alone() -> None:
    """Lets rank 0 alone go on with the script after the training. Other ranks end here; for Ultralytics there is one process."""
    if RANK > 0:
        raise SystemExit(0)
    if RANK < 0:
        return
    if dist.is_initialized():
        dist.destroy_process_group()
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        os.environ.pop(name, None)
        for module in [one for key, one in sys.modules.items() if key.partition(".")[0] == "ultralytics"]:
            if name in vars(module):
                setattr(module, name, 1 if name == "WORLD_SIZE" else -1)
