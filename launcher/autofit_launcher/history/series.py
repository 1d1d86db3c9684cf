"""Writes and reads ``series.jsonl``: what a full run uses and how far it has come, over time.

Lines are only appended, and a reader sees whole ones. In an attempt's first hour there is one for each look, a second apart; after that one
every ten seconds, at each new highest peak, and at the end: a week is 18 MB, where a line a second would be 170.

A line: ``at`` (seconds since 1970), ``used_bytes`` and ``peak_bytes`` (as the run's trial counts memory; the peak since the line before),
``highest_bytes`` (the attempt's so far), ``phase``, ``epoch``, ``epochs``, ``step``, ``steps``, ``loss``, ``done`` (part of the run). What
is not known is left out.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from autofit_launcher.common import files

DENSE_S = 3600.0
"""Seconds since the attempt began in which there is a line for each look."""
EVERY_S = 10.0
"""Seconds between two lines after that."""


class Series:
    """Writes one attempt's part of a run's series. A line that can't be written (a full disk) is left out."""

    def __init__(self, path: Path) -> None:
        """Continues the file that an earlier attempt at the same run has written."""
        self._path, self._began, self._last = path, time.time(), 0.0
        self._before = "" if files.tail(path, most_bytes=1) in ("\n", "") else "\n"  # the last line was not written to its end

    def due(self, at: float) -> bool:
        """Tells whether a line is to be written at this time."""
        return at - self._began < DENSE_S or at - self._last >= EVERY_S

    def add(self, line: Mapping[str, Any]) -> None:
        kept = {key: _told(value) for key, value in line.items() if value is not None}
        self._last = kept["at"]
        with suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(self._before + json.dumps(kept) + "\n")
            self._before = ""


def _told(value: Any) -> Any:
    """A number; as a word one that JSON doesn't know ("nan", "inf")."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def read(path: Path, *, most_bytes: int = files.MOST_BYTES) -> list[dict[str, Any]]:
    """The series so far, oldest first, or its end; a torn line is passed over, and what a person has edited otherwise."""
    lines = map(files.json_object, files.tail(path, most_bytes=most_bytes).encode().splitlines())
    told = ({key: value for key, value in line.items() if _is_told(key, value)} for line in lines)
    return [line for line in told if "at" in line]


def _is_told(key: str, value: object) -> bool:
    return isinstance(value, str) if key == "phase" else key == "loss" or (isinstance(value, (int, float)) and abs(value) < 2**63)


def seconds_left(lines: Sequence[Mapping[str, Any]], *, since: float) -> float | None:
    """Seconds that the run still needs, by its progress from ``since`` (its last start) to the last line; None: unknown."""
    told = [one for one in lines if one["at"] >= since and one.get("done") is not None]
    if not told:
        return None
    first, last = told[0], told[-1]
    gained, took = last["done"] - first["done"], last["at"] - first["at"]
    return (1.0 - last["done"]) * took / gained if gained > 0 and took > 0 else None
