"""The processes of a trial that have taken the budget -> the most memory each of them and its workers used, told to them as it is seen.

Workers that are forked are held by the same limit: they hold what their process held then, and what they decode.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from launcher.shared import procfs
from launcher.shared.sampling import Looks, SegmentsByProcess
from launcher.trainers.script.inside.probe import seen
from launcher.trainers.script.inside.probe.seen import Seen

PERIOD_S = 0.002
"""As the recorder's own look."""
SEARCH_S = 0.05
"""Between two looks for processes that are new."""


class Watch(Looks):
    """From ``start`` to ``stop``."""

    def __init__(self, records: Path) -> None:
        """``records``: folder with a folder for each process, by its number, in which it keeps what is seen of it."""
        super().__init__("autofit-watch", self._look_at_all, every_s=PERIOD_S, search=self._search_for_more, search_every_s=SEARCH_S)
        self._records = records
        self._known: dict[int, Seen] = {}
        self._segments = SegmentsByProcess()
        self._children: dict[int, list[int]] = {}

    def _look_at_all(self) -> None:
        for pid, told in self._known.items():
            told.saw(self._segments.now(pid))
            for child in self._children.get(pid, ()):
                size = self._segments.now(child)
                if not told.paused:
                    told.saw(size)

    def _search_for_more(self) -> None:
        for path in self._records.glob(f"*/{seen.NAME}"):
            pid = int(path.parent.name)
            if pid not in self._known:
                with contextlib.suppress(OSError, ValueError):
                    self._known[pid] = Seen(str(path.parent))
        for pid, told in self._known.items():
            if not told.paused:
                self._children[pid] = [child for child in procfs.children(pid) if child not in self._known]
