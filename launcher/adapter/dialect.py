"""How people say to a trainer what autofit changes, and how its logs are known: for advice on a log that no launch of autofit's wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Change = Literal[
    "batch", "size", "checkpointing", "precision", "optimizer", "model", "eval_batch", "eval_kept", "workers", "unpinned", "offload",
    "cache",
]  # fmt: skip
"""What can be asked of a trainer: a smaller micro-batch at the same effective batch, smaller inputs, gradient checkpointing, mixed
precision, an optimizer with less state, fewer trained weights, a smaller validation batch, less that is kept of a validation, fewer
loader workers, no page-locked memory, states in the host's memory, no data set in memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One trainer's words."""

    trainer: str
    """As people call it."""
    signs: str
    """Regular expression of what only its logs hold."""
    changes: Mapping[Change, str]
    """What to change, in its own words."""

    def speaks(self, text: str) -> bool:
        return re.search(self.signs, text) is not None
