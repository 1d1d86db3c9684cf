"""What the page draws over time: curves with fewer points, in pieces where nothing was told, and the figures at the axes. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Points = Sequence[tuple[float, float]]
"""Seconds since the run began, and a value."""
MOST_POINTS = 400
"""Points of a curve: more than a screen shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A picture of something over ``span`` seconds."""

    title: str
    curves: Mapping[str, Points]
    span: float
    told: Callable[[float], str]
    """A value for people."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Values that are drawn as lines across: the cap, the budget."""

    @property
    def high(self) -> float:
        return 1.05 * max(self._values) or 1.0

    @property
    def low(self) -> float:
        return min(0.0, *self._values)

    @property
    def _values(self) -> list[float]:
        return [value for points in self.curves.values() for _, value in points] + list(self.levels.values())

    def height(self, value: float) -> float:
        """Height of a value in percent of the picture."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    def across(self, at: float) -> float:
        """Place of a time in percent of the picture."""
        return round(min(100.0, 100 * at / self.span), 2)

    def ticks(self) -> list[tuple[float, str, str]]:
        """(percent of an axis, the value there, the time there)"""
        parts = (0.0, 0.25, 0.5, 0.75, 1.0)
        return [(100 * part, self.told(self.low + part * (self.high - self.low)), duration(part * self.span)) for part in parts]

    def pieces(self, points: Points) -> Iterator[str]:
        """A curve as SVG's polylines have it, in a field of 100 x 100; a long time without a point ends a piece."""
        gap, piece, last = max(30.0, self.span / 20), list[str](), points[0][0]
        for at, value in points:
            if at - last > gap:
                yield " ".join(piece)
                piece = []
            piece.append(f"{self.across(at)},{100 - self.height(value):.2f}")
            last = at
        yield " ".join(piece)


def plot(
    title: str, curves: Mapping[str, Points], *, span: float, told: Callable[[float], str], levels: Mapping[str, float] | None = None
) -> Plot | None:
    """A picture of the finite values; None if there is nothing to draw."""
    finite = {name: thinned([point for point in points if math.isfinite(point[1])]) for name, points in curves.items()}
    kept = {name: points for name, points in finite.items() if len(points) > 1}
    return Plot(title=title, curves=kept, span=span or 1.0, told=told, levels=levels or {}) if kept else None


def thinned(points: Points) -> Points:
    """At most ``MOST_POINTS``; of those that fall together the highest, so that no peak is lost."""
    size = math.ceil(len(points) / MOST_POINTS) or 1
    return [max(points[start : start + size], key=lambda one: one[1]) for start in range(0, len(points), size)]


def duration(seconds: float) -> str:
    """0 s, 45 s, 2:30 min, 3:05 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds) // 60
    return f"{minutes // 60}:{minutes % 60:02d} h" if seconds >= 7200 else f"{minutes}:{int(seconds) % 60:02d} min"
