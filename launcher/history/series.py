"""Writes and reads ``series.jsonl``: each second of a full run, what it uses and how far it has come.

One line a look, appended; a reader sees whole lines. The file stays small: of what is older than ``FRESH_S`` only one line is kept for
each stretch of time, and the stretches grow as the run does. A peak is kept as a peak.

A line: ``at`` (seconds since 1970), ``used_bytes`` and ``peak_bytes`` (as the run's trial counts memory; the peak since the line before),
``host_bytes`` (resident memory of all its processes), ``busy`` (part of the time that the card computed), ``phase``, ``epoch``, ``epochs``,
``step``, ``steps``, ``loss``, ``done`` (part of the run), ``steps_per_second``, ``samples_per_second``. What is not known is left out.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from launcher.shared import files

FRESH_S = 600.0
"""The last minutes are kept as they were seen."""
MOST_LINES = 4096
"""Above this the file is thinned out, to some two thirds at most."""


class Series:
    """Writes one run's series. A line that can't be written (a full disk) is left out."""

    def __init__(self, path: Path) -> None:
        """Goes on behind what an earlier attempt at the same run has written."""
        self._path = path
        self._lines = read(path)
        self._before = "\n" if _torn(path) else ""

    def add(self, line: Mapping[str, Any]) -> None:
        kept = {key: _told(value) for key, value in line.items() if value is not None}
        self._lines.append(kept)
        if len(self._lines) > MOST_LINES:
            self._lines = thinned(self._lines, now=kept["at"])
            with suppress(OSError):
                files.replace(self._path, "".join(json.dumps(one) + "\n" for one in self._lines))
            return
        with suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(self._before + json.dumps(kept) + "\n")
            self._before = ""


def _torn(path: Path) -> bool:
    """The last line was not written to its end."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
    return False


def read(path: Path) -> list[dict[str, Any]]:
    """The series so far, oldest first; a torn line is passed over."""
    found = []
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                one = json.loads(line)
                found += [one] if isinstance(one, dict) and "at" in one else []
    return found


def thinned(lines: Sequence[Mapping[str, Any]], *, now: float) -> list[dict[str, Any]]:
    """The same run in fewer lines: the fresh ones as they are, of the others one for each stretch of time, evenly over the whole run."""
    old = [line for line in lines if line["at"] < now - FRESH_S]
    fresh = [dict(line) for line in lines[len(old) :]][-MOST_LINES // 2 :]
    stretch_s = 2.0
    while len({line["at"] // stretch_s for line in old}) > MOST_LINES // 4:
        stretch_s *= 2
    together: dict[float, list[Mapping[str, Any]]] = {}
    for line in old:
        together.setdefault(line["at"] // stretch_s, []).append(line)
    return [_one(stretch) for stretch in together.values()] + fresh


def _one(stretch: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What was last known in a stretch of time, and its highest peaks."""
    one: dict[str, Any] = {}
    for line in stretch:
        peaks = {key: max(line[key], one.get(key, 0)) for key in ("peak_bytes", "host_bytes") if key in line}
        one = {**one, **line, **peaks}
    return one


def _told(value: Any) -> Any:
    """Numbers in few digits; those that JSON doesn't know as words ("nan", "inf")."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) and abs(value) < 1e6 else value if math.isfinite(value) else str(value)


def seconds_left(lines: Sequence[Mapping[str, Any]], *, since: float) -> float | None:
    """What the run still takes, by what it has done from ``since`` (its start, or its last one) to the last line; None: not known."""
    told = [one for one in lines if one["at"] >= since and one.get("done") is not None]
    if not told:
        return None
    first, last = told[0], told[-1]
    gained, took = last["done"] - first["done"], last["at"] - first["at"]
    return (1.0 - last["done"]) * took / gained if gained > 0 and took > 0 else None
