"""How people say to a trainer what autofit changes, and how its logs are known: for advice on a log that no launch of autofit's wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Change = Literal[
    "batch", "size", "checkpointing", "precision", "optimizer", "model", "eval_batch", "eval_kept", "workers", "unpinned", "offload",
    "cache",
]  # fmt: skip
"""What can be asked of a trainer: a smaller micro-batch at the same effective batch, smaller inputs, gradient checkpointing, mixed
precision, an optimizer with less state, fewer trained weights, a smaller validation batch, less that is kept of a validation, fewer
loader workers, no page-locked memory, states in the host's memory, no data set in memory."""
Setting = Literal["micro_batch", "accumulation", "size"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One trainer's words."""

    trainer: str
    """As people call it."""
    signs: str
    """Regular expression of what only its logs hold."""
    changes: Mapping[Change, str]
    """What to change, in its own words."""
    settings: Mapping[Setting, str] = field(default_factory=dict)
    """Regular expressions with one group: where its logs say what it runs with."""

    def speaks(self, text: str) -> bool:
        return re.search(self.signs, text) is not None

    def setting(self, name: Setting, text: str) -> int | None:
        """The last value of a setting that a log tells."""
        found = re.findall(self.settings[name], text) if name in self.settings else []
        return int(found[-1]) if found else None
