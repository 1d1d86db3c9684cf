"""Twins as they would have been seen, for tests of what is made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autofit_launcher.ladder.twins import Step, Twin, TwinFigures


def twin(
    micro_batch: int,
    accumulation: int,
    *,
    apart: float | None = None,
    factor: float = 1.0,
    rest: float = 1e-7,
    length: float = 1.0,
    length_first: float = 1.0,
    later: float = 1e-7,
    last: float | None = None,
    rates: Sequence[float] = (),
    rows_each: int | None = None,
    steps: int = 3,
    weights: str = "w",
    mismatch: str = "",
    strayed: float = 0.0,
    scheduled: int = 1,
    **more: Any,
) -> Twin:
    """A twin of so many steps; ``apart``: it is not the first. ``rows_each``: samples of a step, where they aren't as told. ``last``:
    distance of the third, where it isn't the second's. ``scheduled``: how often its schedule is stepped for each step of its optimizer."""
    each, made = rows_each or micro_batch * accumulation, []
    for number in range(steps):
        distance = (apart or 0.0, later, later if last is None else last)[min(number, 2)]
        figures = TwinFigures(
            apart=distance, factor=factor, rest=rest, length=length, length_first=length_first, mismatch=mismatch,
        )  # fmt: skip
        made.append(
            Step(
                optimizer=0, rows=each * (number + 1), settings=({"lr": repr(rates[number] if rates else 0.1)},),
                scheduled=number * scheduled, against=None if apart is None or number > 2 else figures,
                weights=weights if number == 0 else "", strayed=strayed if number == 0 else 0.0,
            )
        )  # fmt: skip
    rows = tuple(f"row {number}" for number in range(each * steps))
    how: dict[str, Any] = {"micro_batch": micro_batch, "accumulation": accumulation, "ended": "exit", "rows": rows, **more}
    return Twin(**how, steps=tuple(made))


def write(folder: Path, pid: int, *, steps: Sequence[dict[str, Any]], **more: Any) -> None:
    """What a twin's process leaves. ``more``: other than of one process that has come to its end."""
    place = folder / "records" / str(pid)
    place.mkdir(parents=True, exist_ok=True)
    said = {"ended": "exit", "steps": steps, "rank": 0, "size": 1, "rows": ["a", "b"], "whole": [64, 64], "ragged": False, **more}
    (place / "twin.json").write_text(json.dumps(said), encoding="utf-8")
