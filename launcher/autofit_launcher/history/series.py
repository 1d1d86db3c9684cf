"""Writes and reads ``series.jsonl``: what a full run uses and how far it has come, over time.

Lines are only appended, and a reader sees whole ones. In the first hour there is one for each look, a second apart; after that one every
ten seconds, at each new highest peak, and at the end: a week is 18 MB, where a line a second would be 170.

A line: ``at`` (seconds since 1970), ``used_bytes`` and ``peak_bytes`` (as the run's trial counts memory; the peak since the line before),
``highest_bytes`` (the attempt's so far), ``host_bytes`` (resident memory of all its processes), ``phase``, ``epoch``, ``epochs``, ``step``,
``steps``, ``loss``, ``done`` (part of the run). What is not known is left out.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from autofit_launcher.common import files

DENSE_S = 3600.0
"""Seconds since the run began in which there is a line for each look."""
EVERY_S = 10.0
"""Seconds between two lines after that."""


class Series:
    """Writes one run's series. A line that can't be written (a full disk) is left out."""

    def __init__(self, path: Path) -> None:
        """Continues the file that an earlier attempt at the same run has written."""
        self._path = path
        self._began = _began(path)
        self._last = 0.0
        torn = files.tail(path, most_bytes=1) not in ("\n", "")  # the last line was not written to its end
        self._before = "\n" if torn else ""

    def due(self, at: float) -> bool:
        """Tells whether a line is to be written at this time."""
        return self._began is None or at - self._began < DENSE_S or at - self._last >= EVERY_S

    def add(self, line: Mapping[str, Any]) -> None:
        kept = {key: _told(value) for key, value in line.items() if value is not None}
        self._began, self._last = kept["at"] if self._began is None else self._began, kept["at"]
        with suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(self._before + json.dumps(kept) + "\n")
            self._before = ""


def _began(path: Path) -> float | None:
    """The time of the first line; None where there is none."""
    with suppress(OSError, KeyError, TypeError), files.opened(path) as file:
        return float(files.json_object(file.readline())["at"])
    return None


def read(path: Path) -> list[dict[str, Any]]:
    """The series so far, oldest first; a torn line is passed over."""
    return points(GrowingLines(path))


def points(lines: GrowingLines) -> list[dict[str, Any]]:
    """The fresh lines that tell of a moment; what a person has edited otherwise is passed over."""
    told = ({key: value for key, value in line.items() if _is_told(key, value)} for line in lines.fresh())
    return [line for line in told if "at" in line]


def _is_told(key: str, value: object) -> bool:
    return isinstance(value, str) if key == "phase" else key == "loss" or (isinstance(value, (int, float)) and abs(value) < 2**63)


def _told(value: Any) -> Any:
    """Rounds a number below a million to six digits; writes those that JSON doesn't know as words ("nan", "inf")."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) and abs(value) < 1e6 else value if math.isfinite(value) else str(value)


def seconds_left(lines: Sequence[Mapping[str, Any]], *, since: float) -> float | None:
    """Seconds that the run still needs, by its progress from ``since`` (its last start) to the last line; None: unknown."""
    told = [one for one in lines if one["at"] >= since and one.get("done") is not None]
    if not told:
        return None
    first, last = told[0], told[-1]
    gained, took = last["done"] - first["done"], last["at"] - first["at"]
    return (1.0 - last["done"]) * took / gained if gained > 0 and took > 0 else None


class GrowingLines:
    """A file of JSON lines that grows."""

    def __init__(self, path: Path, *, most_bytes: int = files.MOST_BYTES) -> None:
        """``most_bytes``: at most so much of what is there at the first look, its end."""
        self._path, self._most_bytes = path, most_bytes
        self._at: int | None = None

    def fresh(self) -> list[dict[str, Any]]:
        """The whole lines since the last look."""
        with suppress(OSError), files.opened(self._path) as file:
            at = self._first(file) if self._at is None else self._at
            file.seek(at)
            whole, newline, _ = file.read().rpartition(b"\n")
            self._at = at + len(whole) + len(newline)
            return [value for line in whole.splitlines() if (value := files.json_object(line))]
        return []

    def _first(self, file: BinaryIO) -> int:
        """Offset of the first line that is read."""
        if (size := os.fstat(file.fileno()).st_size) <= self._most_bytes:
            return 0
        file.seek(size - self._most_bytes)
        file.readline()  # the rest of a line that begins before it
        return file.tell()
