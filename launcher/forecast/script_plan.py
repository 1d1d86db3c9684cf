"""Predicts every rung of a ladder that can't be traced from two small real trials. Pure; never a verdict.

Memory is taken to be affine in the samples of a micro-batch times the size of each (``extrapolation``). The bounds widen with the distance,
as the effect of the two trials' noise does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from launcher.config.schema import Recipe
from launcher.forecast.gpu_catalogue import GpuModel
from launcher.forecast.plan import CardPlan, OnCard, cap_on, word_for
from launcher.forecast.prediction import Forecast
from launcher.ladder import extrapolation
from launcher.ladder.extrapolation import Measured, Side
from launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung
from launcher.ladder.search import Tried
from launcher.machine.devices import Budget
from launcher.shared.report import Phase
from launcher.shared.sizes import MIB, format_size

NOISE = 0.02
"""Part of a peak by which it may be off,"""
NOISE_BYTES = 10 * MIB
"""and so much beside: a card's allocator takes segments of 20 MiB, two trials of one rung on a CPU differ by 1 to 13 MiB."""
SMALL = (16, 4)
"""The asked micro-batch over those that are tried: small enough to be quick, large enough that what is foreseen is not mostly noise."""
POINTS = len(SMALL)
"""Number of trials that must fit, to make a line."""
FEWER = 4
"""After a trial that didn't fit, the micro-batch is divided by this."""
_SIDES: Mapping[Phase, Side] = {Phase.TRAIN: "training", Phase.VALIDATE: "validation"}


def to_try(ladder: Ladder, made: Sequence[Tried]) -> Rung | None:
    """The next rung to try: a small micro-batch with the asked rung's other values, a smaller one after a failure.

    None: two trials fit, or nothing is left to try.
    """
    alike = {name: value for name, value in ladder.asked.values.items() if name != MICRO_BATCH}
    row = [rung for rung in ladder.rungs if all(rung.values[name] == value for name, value in alike.items())]
    row = [rung for rung in row if rung.micro_batch > 1] or row
    tried = {one.rung.index for one in made}
    fit = [one.rung for one in made if one.verdict.fits]
    failed = [one.rung.micro_batch for one in made if not one.verdict.fits]
    if len(fit) == POINTS or (made and not made[-1].verdict.fits and not made[-1].verdict.lower_rung_may_help):
        return None
    most = min([ladder.asked.micro_batch / SMALL[len(fit)], *(micro / FEWER for micro in failed)])
    left = [rung for rung in row if rung.index not in tried and rung.micro_batch < min(failed, default=math.inf)]
    return next((rung for rung in left if rung.micro_batch <= most), left[-1] if left else None)


def planned(recipe: Recipe, ladder: Ladder, seen: Sequence[Measured], budget: Budget, chosen: Sequence[GpuModel]) -> CardPlan:
    """``seen``: trials that fit, as parts of the budget's cap. ``chosen``: the cards to plan for; without any, the device itself."""
    forecasts = _forecasts(ladder, seen, budget.cap_bytes)
    there = [(card.name, card.title, card.usable_bytes, cap_on(card, recipe)) for card in chosen]
    here = [("here", budget.name, budget.budget_bytes, budget.cap_bytes)]
    peaks = ((format_size(round(one.need * budget.cap_bytes)), one.rung.micro_batch) for one in seen if one.fits)
    measured = " and ".join(f"{peak} at micro-batch {micro}" for peak, micro in peaks)
    return CardPlan(
        name=recipe.name,
        ladder=ladder,
        cards=tuple(
            OnCard(
                name=name,
                title=title,
                usable_bytes=usable,
                cap_bytes=cap,
                forecasts=forecasts,
                words={rung.index: word_for(forecasts.get(rung.index), cap) for rung in ladder.rungs},
            )
            for name, title, usable, cap in there or here
        ),
        why_not={rung.index: "another model than the one that was tried" for rung in ladder.rungs if rung.index not in forecasts},
        versions={},
        assumed=("memory grows by the same with every sample of a micro-batch, and with the size of each",),
        left_out=(),
        evidence=f"extrapolated, not proven: real trials on {budget.name} needed {measured}",
    )


def _forecasts(ladder: Ladder, seen: Sequence[Measured], cap: int) -> dict[int, dict[Phase, Forecast]]:
    found: dict[int, dict[Phase, Forecast]] = {}
    for phase, side in _SIDES.items():
        off = [_off(seen, side, NOISE_BYTES / cap, larger, smaller) for larger, smaller in product((1, -1), repeat=2)]
        lines = [extrapolation.on_one_side(ladder.rungs, points, side) for points in (seen, *off)]
        for index in lines[0]:
            sizes = [round(line[index] * cap) for line in lines if index in line]
            forecast = Forecast(live_bytes=0, low_bytes=min(sizes), high_bytes=max(sizes), middle_bytes=sizes[0])
            found.setdefault(index, {})[phase] = forecast
    return found


def _off(seen: Sequence[Measured], side: Side, noise: float, larger: int, smaller: int) -> list[Measured]:
    """The trials as their noise may have had them at worst: more (1) or less (-1), the one with most work and the others."""
    most = max(extrapolation.load(one.rung, side) for one in seen)
    return [_moved(one, noise, larger if extrapolation.load(one.rung, side) == most else smaller) for one in seen]


def _moved(one: Measured, noise: float, way: int) -> Measured:
    def moved(need: float) -> float:
        return max(0.0, need + way * (NOISE * need + noise))

    return replace(one, need=moved(one.need), by_phase={phase: moved(need) for phase, need in one.by_phase.items()})
