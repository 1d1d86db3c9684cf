"""Looks at something again and again in a thread of its own. Standard library only: both sides of the wall use it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from . import procfs


class Looks:
    """Looks at something again and again in a thread, from ``start`` to ``stop``."""

    def __init__(
        self, name: str, look: Callable[[], None], *, every_s: float, search: Callable[[], None] | None = None, search_every_s: float = 1.0
    ) -> None:
        """``name`` begins with ``procfs.WATCHES``: what looking costs is no work of the trainer's.

        ``search``: for what there is to look at, which is dearer and done less often; once before the first look."""
        self._look, self._every_s, self._search, self._search_every_s = look, every_s, search, search_every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        procfs.name_thread(self._thread.name)
        searched = float("-inf")
        while not self._stopped.is_set():
            (time.sleep if self._every_s < 0.1 else self._stopped.wait)(self._every_s)  # an Event's own wait costs twice as much
            if self._search is not None and time.monotonic() - searched > self._search_every_s:
                self._search()
                searched = time.monotonic()
            self._look()
