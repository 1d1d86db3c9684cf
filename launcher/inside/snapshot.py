"""PyTorch's own record of a card's memory, for its viewer (pytorch.org/memory_viz): every allocation of a trial, with where it was made.

Only where a recipe says ``trial.snapshot=true``. The record is host memory, some KB for each event.
https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

import contextlib
from pathlib import Path

NAME = "snapshot.pickle"
MOST_EVENTS = 100_000
"""Of so many allocations and frees the last are kept."""


def begin() -> None:
    """From here on every allocation of this process is recorded."""
    import torch

    torch.cuda.memory._record_memory_history(max_entries=MOST_EVENTS, stacks="python")


def keep(folder: Path) -> None:
    """Leaves the record in ``folder``. A context that a failure broke, or a full disk, costs the record and nothing else."""
    import torch

    with contextlib.suppress(Exception):
        torch.cuda.memory._dump_snapshot(str(folder / NAME))
