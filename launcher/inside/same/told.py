"""What a twin is told, and where it writes. Standard library only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STEPS_HELD = 3
"""Optimizer steps whose gradients are compared: clearing, first moments and schedules show in the second and the third."""
MOST_STEPS = 400
"""Steps after which a twin that has no end of its own in sight is ended."""

RESULT = "twin.json"
"""What each process of a twin writes down, in its folder of the records."""
OVER = "over"
"""Stands beside those folders when none of a twin's processes runs any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One twin."""

    samples: int
    """Of an optimizer step, as the command was told."""
    micro_batch: int
    pass_samples: int = 0
    """Every pass over a loader ends after so many; 0: at its own end."""
    whole_batch: int = 0
    """Samples of the asked optimizer step itself, which says whether a pass over the data ends with a smaller one."""
    against: str = ""
    """Folder of the records of the twin whose gradients these are held against; empty: this is the first."""
    same_row: int = 0
    """Every row is the first one, with what the row of this number draws; 0: rows as they come."""
    rows: tuple[str, ...] = ()
    """Indices of the first twin's rows, which are taken whatever the sampler says; empty: the sampler's."""
    rows_of: int = 0
    """Number of the data set that those are of."""
    batch_norm_trains: bool = False
    """Batch norm as it trains; otherwise with its running statistics."""
    single: bool = True
    """Weights of half precision are turned to single, so that no rounding hides a difference."""
    by_index: bool = False
    """A row is known by its index, whoever takes it and when: several ranks share the rows, or do in the twin that this is held against."""
    seconds: float = 20.0
    """After its first optimizer step."""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Told:
        return cls(**{**said, "rows": tuple(said.get("rows", ()))})

    def plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
