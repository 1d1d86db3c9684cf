"""The ranks that train together with this process: which of them it is, and what they decide alike."""

from __future__ import annotations

import sys
from pathlib import Path

from ..ranks import Ranks


class Group:
    """As it was when this process last trained: a script may leave its group before its end."""

    def __init__(self, records: Path) -> None:
        """``records``: folder of the records of all ranks."""
        self._records = records
        self._ranks: Ranks | None = None
        self.rank, self.size = 0, 1

    def look(self) -> None:
        """A step comes, by which time the group is up."""
        dist = sys.modules.get("torch.distributed")
        if dist is not None and dist.is_available() and dist.is_initialized():
            self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def agree(self, place: int, wish: bool) -> bool:
        """Whether all leave at this place, which each comes to: one that left alone would leave the others in a collective."""
        if self.size == 1:
            return wish
        self._ranks = self._ranks or Ranks(self._records, self.rank)
        return self._ranks.agree("leave", str(place), wish)
