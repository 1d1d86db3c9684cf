"""The processes of a trial that have taken the budget -> the most memory each of them and its workers used, told to them as it is seen.

Workers that are forked are held by the same limit: they hold what their process held then, and what they decode.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from launcher import procfs
from launcher.trainers.script.inside.probe import seen
from launcher.trainers.script.inside.probe.seen import Seen

PERIOD_S = 0.002
"""As the recorder's own look."""
SEARCH_S = 0.05
"""Between two looks for processes that are new."""


class Watch:
    """A thread from ``start`` to ``stop``."""

    def __init__(self, records: Path) -> None:
        """``records``: folder with a folder for each process, by its number, in which it keeps what is seen of it."""
        self._records = records
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="autofit-watch", daemon=True)
        self._known: dict[int, Seen] = {}
        self._segments: dict[int, procfs.DataSegments] = {}
        self._children: dict[int, list[int]] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        searched = 0.0
        while not self._stop.wait(PERIOD_S):
            if time.monotonic() - searched > SEARCH_S:
                searched = time.monotonic()
                self._search()
            for pid, told in self._known.items():
                told.saw(self._size(pid))
                for child in self._children.get(pid, ()):
                    size = self._size(child)
                    if not told.paused:
                        told.saw(size)

    def _search(self) -> None:
        for path in self._records.glob(f"*/{seen.NAME}"):
            pid = int(path.parent.name)
            if pid not in self._known:
                with contextlib.suppress(OSError, ValueError):
                    self._known[pid] = Seen(str(path.parent))
        for pid, told in self._known.items():
            if not told.paused:
                self._children[pid] = [child for child in procfs.children(pid) if child not in self._known]

    def _size(self, pid: int) -> int:
        """Data segments; 0 where the process has ended."""
        try:
            segments = self._segments.get(pid) or self._segments.setdefault(pid, procfs.DataSegments(pid))
            return segments.now()
        except (OSError, IndexError):
            self._segments.pop(pid, None)
            return 0
