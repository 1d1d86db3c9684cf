"""Runs a Python program, given as words, with one fault in its process: ``python faulty.py FAULT PROGRAM [ARGUMENTS...]``."""

from __future__ import annotations

import gc
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch

NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def oom_in_the_assigner() -> None:
    """The label assigner runs out of memory on a whole batch, and on no single image."""
    from ultralytics.utils.tal import TaskAlignedAssigner

    mask = TaskAlignedAssigner.get_pos_mask

    def failing(self: Any, scores: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if len(scores) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return mask(self, scores, *args, **kwargs)

    TaskAlignedAssigner.get_pos_mask = failing


def offline() -> None:
    """Any look at the network fails, and is told; so is any write outside the trial's own folder and temporary files."""
    allowed = (os.environ["ALLOWED"], os.environ["TMPDIR"], "/dev/", "/proc/")

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in NETWORK:
            print(f"NETWORK {event} {arguments}", file=sys.stderr)
            raise RuntimeError(f"the network was asked: {event} {arguments}")
        if event == "open" and isinstance(arguments[0], str) and arguments[2] & WRITES:
            path = str(Path(arguments[0]).absolute())
            if not path.startswith(allowed):
                print(f"WRITE {path}", file=sys.stderr)

    sys.addaudithook(watch)


def figures() -> None:
    """Each figure of classes that were mistaken is told, with whether what earlier figures left may still be there."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith("confusion_matrix.png"):
            print(f"FIGURE {gc.isenabled()}", file=sys.stderr)

    sys.addaudithook(watch)


if __name__ == "__main__":
    fault = globals()[sys.argv[1]]
    sys.argv[:] = sys.argv[2:]  # Ultralytics keeps the list
    fault()
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
