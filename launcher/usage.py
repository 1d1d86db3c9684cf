"""A running full run -> the most memory it used, in the very measure of its trial. Watched from outside, at a cost below 0.5 %.

CPU: VmData of each process above its base. A process that autofit holds to a budget tells its base itself (``held``); another
one's is taken to be that of its trial, which imported the same. CUDA: what the driver says is in use beyond what was before.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

from launcher import devices, procfs
from launcher.devices import Budget

PERIOD_S = 0.02
"""Between two looks at the data segments. A run has hundreds of steps, each with its peak: one that lasts some milliseconds is not missed
for long. Waking up is what costs, some 40 microseconds; a look at one process costs 2."""
JOIN_PERIOD_S = 0.5
"""Between two looks for processes that have told their base."""
DRIVER_PERIOD_S = 0.5
"""Between two looks at the driver."""


class Usage:
    """Samples in a thread of its own from ``start`` to ``stop``. Sizes are bytes."""

    def __init__(self, pid: int, budget: Budget, held: Path, *, base_bytes: int) -> None:
        """``held``: folder in which processes that took the budget tell their base; ``base_bytes``: of the trial's process."""
        self._pid, self._budget, self._held, self._base_bytes = pid, budget, held, base_bytes
        self._watched: dict[int, tuple[procfs.DataSegments, int]] = {}
        self._gone: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="autofit-usage", daemon=True)
        self.peak_bytes = 0
        """Most that any process of the run used, as ``TrialReport.peak_bytes`` counts it; 0 where nothing could be seen."""
        self.now_bytes = 0
        """Most that one of them uses now."""
        self._lately_bytes = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=2)

    def lately(self) -> int:
        """The peak since this was last asked."""
        peak, self._lately_bytes = max(self._lately_bytes, self.now_bytes), 0
        return peak

    def host_bytes(self) -> int:
        """Resident memory of the run's process and of all that it started; what they share counts in each."""
        total = 0
        for pid in (self._pid, *procfs.descendants(self._pid)):
            with contextlib.suppress(OSError, IndexError):
                total += procfs.resident_bytes(pid)
        return total

    def _run(self) -> None:
        if self._budget.kind == "cuda":
            while not self._stop.wait(DRIVER_PERIOD_S):
                self._saw(devices.used_bytes(self._budget))
            return
        joined = 0.0
        while not self._stop.is_set():
            time.sleep(PERIOD_S)  # an Event's own wait costs twice as much
            if time.monotonic() - joined > JOIN_PERIOD_S:
                self._join()
                joined = time.monotonic()
            self._saw(max((self._of(pid) for pid in list(self._watched)), default=0))

    def _saw(self, size: int) -> None:
        self.now_bytes = size
        self.peak_bytes = max(self.peak_bytes, size)
        self._lately_bytes = max(self._lately_bytes, size)

    def _of(self, pid: int) -> int:
        segments, base = self._watched[pid]
        try:
            return segments.now() - base
        except (OSError, IndexError):  # it has ended
            self._gone.add(pid)
            del self._watched[pid]
            return 0

    def _join(self) -> None:
        """Processes that have told their base since the last look; the run's own one where none of them tells any."""
        bases = {}
        for told in self._held.glob("*.json") if self._held.is_dir() else ():
            with contextlib.suppress(OSError, ValueError, KeyError):
                bases[int(told.stem)] = int(json.loads(told.read_text(encoding="utf-8"))["base_bytes"])
        if not bases and not self._budget.emulated:
            bases[self._pid] = self._base_bytes
        for pid, base in list(bases.items()):  # what they fork is held to the same limit, each by itself
            bases |= {below: base for below in procfs.descendants(pid) if below not in bases}
        for pid in bases.keys() - self._watched.keys() - self._gone:
            with contextlib.suppress(OSError):
                self._watched[pid] = (procfs.DataSegments(pid), bases[pid])
