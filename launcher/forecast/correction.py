"""Fits by how much predictions of a trainer are off on a device, phase by phase, from real peaks: a scale and an offset.

Kept across launches in autofit's data folder, one line for each real peak. A torn line is passed over.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from launcher.history import jsonl
from launcher.paths import data_folder

FILE = "forecasts.jsonl"
NEWEST = 64
"""So many of the newest count: trainers, drivers and autofit change."""
SPREAD = 2.0
"""The largest over the smallest forecast from which on a slope can be told from an offset."""
ENOUGH = 4
STEEPEST = (0.7, 1.6)
"""No correction beyond this: it would hide that something else is wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A real peak beside its forecast. Bytes."""

    trainer: str
    """And its task, where it has several: speech and text need other things beside what is traced."""
    device: str
    """The device's name, as in ``peaks``."""
    phase: str
    foreseen_bytes: int
    """The middle, uncorrected."""
    real_bytes: int
    """Reserved, or on a CPU data segments above the base."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """real = scale x foreseen + offset."""

    scale: float = 1.0
    offset: float = 0.0
    points: int = 0


def correction(seen: Sequence[Seen], *, proportional: bool) -> Correction:
    """Of one trainer, device and phase. ``proportional``: what is off grows with the need (a card's workspaces); else it is a constant (a
    CPU's libraries)."""
    points = [one for one in seen if one.foreseen_bytes > 0 and one.real_bytes > 0][-NEWEST:]
    if not points:
        return Correction()
    sizes = [one.foreseen_bytes for one in points]
    if len(points) >= ENOUGH and max(sizes) >= SPREAD * min(sizes):
        return _line(points)
    if proportional:
        return Correction(scale=_bounded(statistics.median(one.real_bytes / one.foreseen_bytes for one in points)), points=len(points))
    return Correction(offset=statistics.median(one.real_bytes - one.foreseen_bytes for one in points), points=len(points))


def _line(points: Sequence[Seen]) -> Correction:
    """The median of all slopes between two points (Theil and Sen): one point that is far off moves it little."""
    slopes = [
        (one.real_bytes - other.real_bytes) / (one.foreseen_bytes - other.foreseen_bytes)
        for number, one in enumerate(points)
        for other in points[:number]
        if one.foreseen_bytes != other.foreseen_bytes
    ]
    scale = _bounded(statistics.median(slopes))
    offset = statistics.median(one.real_bytes - scale * one.foreseen_bytes for one in points)
    return Correction(scale=scale, offset=offset, points=len(points))


def _bounded(scale: float) -> float:
    return min(max(scale, STEEPEST[0]), STEEPEST[1])


def file() -> Path:
    return data_folder() / FILE


def known() -> list[Seen]:
    """Everything that was kept, oldest first."""
    return list(jsonl.read(file(), Seen))


def of(seen: Iterable[Seen], *, trainer: str, device: str, phase: str) -> list[Seen]:
    return [one for one in seen if (one.trainer, one.device, one.phase) == (trainer, device, phase)]


def keep(seen: Iterable[Seen]) -> None:
    """Adds to what is kept; a folder that can't be written keeps nothing."""
    jsonl.add(file(), map(asdict, seen))
