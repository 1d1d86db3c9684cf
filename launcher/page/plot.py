"""Geometry of the page's pictures: ticks, lines in percent, fewer points. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_POINTS = 400
"""Points of a line: more than a screen shows."""
_TABLE_ROWS = 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A figure at an axis."""

    at: float
    """Place in percent of the axis."""
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One line of a plot."""

    name: str
    kind: str
    """Its class in the page's style."""
    pieces: tuple[str, ...]
    """Points as SVG has them, in a field of 100 x 100; a gap ends a piece."""
    values: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A picture of something over time."""

    title: str
    lines: tuple[Curve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    levels: tuple[Tick, ...]
    """Lines across, with their words: the cap, the budget."""
    rows: tuple[tuple[str, ...], ...]
    """The plot as a table: time and each line's value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """From values to percent."""

    least: float
    most: float

    def at(self, value: float) -> float:
        return round(100 * (value - self.least) / ((self.most - self.least) or 1), 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Unit of an axis."""

    told: Callable[[float], str]
    """A value for people."""
    size: float = 1.0
    """Ticks are round in it."""


def plot(
    title: str, lines: Mapping[str, Sequence[tuple[float, float]]], *, span: float, unit: Unit, levels: Mapping[str, float] | None = None
) -> Plot | None:
    """Lines (name -> points of seconds and value) over ``span`` seconds; None if there is nothing to draw."""
    kept = {name: thinned([(at, value) for at, value in points if math.isfinite(value)]) for name, points in lines.items()}
    kept = {name: points for name, points in kept.items() if len(points) > 1}
    if not kept:
        return None
    values = [value for points in kept.values() for _, value in points] + list((levels or {}).values())
    low, high = (0.0, max(values) * 1.05 or 1.0) if min(values) >= 0 else (min(values), max(values))
    y, x = Scale(least=low, most=high), Scale(least=0.0, most=span or 1.0)
    field = _Field(x=x, y=y, gap=max(30.0, span / 20))
    return Plot(
        title=title,
        lines=tuple(_line(name, f"line{number}", points, field) for number, (name, points) in enumerate(kept.items())),
        x_ticks=tuple(Tick(at=x.at(value), text=clock(value, span)) for value in ticks(0.0, span, 5, base=60 if span > 120 else 10)),
        y_ticks=tuple(
            Tick(at=y.at(value), text=unit.told(value))
            for value in (unit.size * one for one in ticks(low / unit.size, high / unit.size, 4))
        ),
        levels=tuple(Tick(at=y.at(value), text=f"{name} {unit.told(value)}") for name, value in (levels or {}).items()),
        rows=_rows(kept, unit.told),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Field:
    """The rectangle in which lines are drawn."""

    x: Scale
    y: Scale
    gap: float
    """Seconds without a point that end a piece of a line."""


def _line(name: str, kind: str, points: Sequence[tuple[float, float]], field: _Field) -> Curve:
    pieces: list[list[str]] = [[]]
    last = points[0][0]
    for at, value in points:
        if at - last > field.gap:
            pieces.append([])
        pieces[-1].append(f"{field.x.at(at)},{round(100 - field.y.at(value), 2)}")
        last = at
    return Curve(name=name, kind=kind, pieces=tuple(" ".join(piece) for piece in pieces), values=tuple(points))


def _rows(lines: Mapping[str, Sequence[tuple[float, float]]], told: Callable[[float], str]) -> tuple[tuple[str, ...], ...]:
    longest = max(lines.values(), key=len)
    every = max(1, len(longest) // _TABLE_ROWS)
    rows = [("time", *lines)]
    for at, _ in longest[::every]:
        near = (min(points, key=lambda one, at=at: abs(one[0] - at))[1] for points in lines.values())  # type: ignore[misc]
        rows.append((duration(at), *map(told, near)))
    return tuple(rows)


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most so many points; of those that fall together the highest, so that no peak is lost."""
    if len(points) <= most:
        return list(points)
    size = len(points) / most
    return [max(points[int(number * size) : int((number + 1) * size)], key=lambda one: one[1]) for number in range(most)]


def ticks(low: float, high: float, about: int, *, base: float = 10) -> list[float]:
    """Round values from ``low`` to ``high``, some ``about`` of them. ``base`` 60: round in minutes and hours."""
    span = (high - low) or 1.0
    steps = [factor * 60**power for power in range(3) for factor in (1, 2, 5, 10, 15, 30)] if base == 60 else _decimal(span)
    step = next((one for one in steps if span / one <= about), steps[-1] * math.ceil(span / steps[-1] / about))
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _decimal(span: float) -> list[float]:
    power = 10.0 ** (math.floor(math.log10(span)) - 1)
    return [power * factor for factor in (1, 2, 5, 10, 20, 50, 100)]


def duration(seconds: float) -> str:
    """0 s, 45 s, 2:30 min, 3:05 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
    return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d} h"


def clock(seconds: float, span: float) -> str:
    """A time on an axis of so many seconds: 40 s, 2:30, 3:05 h."""
    if span <= 120:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}" if span < 7200 else f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d} h"


def json_of(plot: Plot) -> dict[str, Any]:
    """The plot as the page's script reads it, to tell the value under the pointer."""
    return {"lines": [{"name": line.name, "values": line.values} for line in plot.lines]}
