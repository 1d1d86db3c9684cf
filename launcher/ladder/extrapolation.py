"""Estimates what each rung will need, as a part of the cap, from real trials and predictions. Pure; never a verdict.

A trial that fits is a measurement; one that fails is a lower bound. Errors of predictions are nearly proportional: a prediction is scaled
by what was measured, with an offset if two trials show one. Without a prediction, memory is taken to be affine in the samples of a
micro-batch times the size of each: two trials of a model give the line, one line for training and one for validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import le

from launcher.ladder.rungs import MICRO_BATCH, Rung
from launcher.shared.report import Phase

STANDING = 0.3
"""Fraction of a peak taken not to grow with the batch, if there is only one trial: weights, gradients, optimizer."""
OVER = 1.02
"""A failed trial whose peak is over this many times its cap got the memory it wanted, so its peak is a measurement."""
_SQUARED = frozenset({"image_size"})
_LINEAR = frozenset({MICRO_BATCH, "segment", "sequence_length", "label_length", "audio_seconds"})
_VALIDATION = {"val_micro_batch": MICRO_BATCH, "generation_length": "generation_length"}
"""Wheel that grows validation alone -> the wheel in whose place it does."""
_IN_VALIDATION = frozenset({Phase.VALIDATE.value, Phase.FINISH.value})
_TRAINS = frozenset({Phase.TRAIN.value, Phase.TRAIN_AGAIN.value})
Side = str


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a real trial of a rung needed, as a fraction of its cap."""

    rung: Rung
    need: float
    """Its whole peak."""
    fits: bool
    by_phase: Mapping[str, float] = field(default_factory=dict)
    """Peak of each phase that it reached; empty if unknown."""
    failed_in: str = ""
    """For a trial that failed, the phase; what came before was measured."""

    def on(self, side: Side) -> float | None:
        """The peak on one side; None if it didn't get there."""
        if not self.by_phase:
            return self.need if side == "training" else None
        return max((need for phase, need in self.by_phase.items() if _side(phase) == side), default=None)

    @property
    def validating(self) -> bool:
        """Whether it failed in validation, after its training had gone through."""
        return bool(self.failed_in) and _side(self.failed_in) == "validation"

    def measured(self, side: Side) -> bool:
        """Whether ``on(side)`` is a measurement, and not only a lower bound from before it failed there."""
        reached = side == "validation" or not _TRAINS.isdisjoint(self.by_phase)  # a script may validate before it trains
        return self.fits or bool(reached and self.by_phase and self.failed_in and _side(self.failed_in) != side)


def _side(phase: str) -> Side:
    return "validation" if phase in _IN_VALIDATION else "training"


def needs(rungs: Sequence[Rung], seen: Sequence[Measured], predicted: Mapping[int, float | None] | None = None) -> dict[int, float | None]:
    """Rung index -> its estimated need as a fraction of the cap; None if nothing tells it.

    ``predicted``: the same, as predicted before any trial, for the rungs that have a prediction.
    """
    corrected = _corrected(rungs, predicted or {}, seen)
    own = _own([rung for rung in rungs if rung.index not in corrected], seen)
    return {rung.index: _between(rung, corrected.get(rung.index, own.get(rung.index)), seen) for rung in rungs}


def asks_as_much(more: Rung, less: Rung) -> bool:
    """Whether ``more`` asks at least as much as ``less`` on every wheel. Another number of cards is neither more nor less: fewer accumulate
    more, and may have more room each.
    """
    return more.world_size == less.world_size and all(map(le, more.position, less.position))


def _between(rung: Rung, need: float | None, seen: Sequence[Measured]) -> float | None:
    """The need, no less than what a rung that asks less needed, and no more than what one that asks more needed."""
    if need is None:
        return None
    least = max((one.need for one in seen if asks_as_much(rung, one.rung)), default=0.0)
    most = min((one.need for one in seen if one.fits and asks_as_much(one.rung, rung)), default=need)
    return max(least, min(need, most))


# ----------------------------------------------------------------------------------------------------------------------
# A prediction, held to what was measured


def _corrected(rungs: Sequence[Rung], predicted: Mapping[int, float | None], seen: Sequence[Measured]) -> dict[int, float]:
    """Scaled by what was measured, and lifted by what failed. A failure in validation says nothing of what is validated otherwise."""
    there = {index: need for index, need in predicted.items() if need is not None and need > 0}
    pairs = [(there[one.rung.index], one) for one in seen if one.rung.index in there]
    offset, scale = _line([(need, one.need) for need, one in pairs if one.fits])
    found = {index: max(offset + scale * need, need * 1e-3) for index, need in there.items()}
    short = [(max(one.need, 1.001) / found[one.rung.index], one) for _, one in pairs if not one.fits]

    def lifted(rung: Rung) -> float:
        alike = _model(rung, "validation")
        factors = (factor for factor, one in short if not one.validating or _model(one.rung, "validation") == alike)
        return found[rung.index] * max((1.0, *factors))

    return {rung.index: lifted(rung) for rung in rungs if rung.index in found}


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(offset, scale) through the two that measured most; a scale alone where they tell no rising line."""
    if not points:
        return 0.0, 1.0
    (x, y), *others = sorted(points, key=lambda point: -point[1])
    lower = next(((x0, y0) for x0, y0 in others if x0 < x), None)
    if lower is None or lower[1] >= y or x - lower[0] < 0.05 * x:  # so near each other, their noise would be the slope
        return 0.0, y / x
    scale = (y - lower[1]) / (x - lower[0])
    return y - scale * x, scale


# ----------------------------------------------------------------------------------------------------------------------
# Trials alone


def _own(rungs: Sequence[Rung], seen: Sequence[Measured]) -> dict[int, float]:
    """From trials of the same model (all wheels but those that are an amount of work): the larger of the two sides."""
    training, validation = _on_one_side(rungs, seen, "training"), _on_one_side(rungs, seen, "validation")
    return {index: max(need, validation.get(index, 0.0)) for index, need in training.items()}


def _on_one_side(rungs: Sequence[Rung], seen: Sequence[Measured], side: Side) -> dict[int, float]:
    """Rung index -> its need on one side, by trials of the same model there; rungs of which they tell nothing are left out."""
    points: dict[object, list[tuple[float, float, bool]]] = {}
    for one in seen:
        if (need := one.on(side)) is not None:
            points.setdefault(_model(one.rung, side), []).append((load(one.rung, side), need, one.measured(side)))
    found = {}
    for rung in rungs:
        if (there := points.get(_model(rung, side))) is not None and (need := _at(load(rung, side), there)) is not None:
            found[rung.index] = need
    return found


def _at(amount: float, points: Sequence[tuple[float, float, bool]]) -> float | None:
    """The need at ``amount`` of work, from (amount, need, measured) of others."""
    exact = [(x, y) for x, y, fits in points if fits]
    over = [(x, y) for x, y, fits in points if not fits and y > OVER]
    known = exact if len(exact) > 1 or not over else [*exact, *over]
    grows = any(not fits for _, _, fits in points)  # where more work has failed, it isn't the same for all
    offset, scale = (None if grows else _flat(exact)) or _line(known)
    if offset == 0.0 and (len(exact) == 1 or (not exact and over)):
        x, y = exact[0] if exact else max(over, key=lambda point: point[1])
        offset, scale = STANDING * y, (1 - STANDING) * y / x
    elif not exact and not over:
        return None
    failed = [max(y, 1.001) / (offset + scale * x) for x, y, fits in points if not fits]
    return (offset + scale * amount) * max([1.0, *failed])


def _flat(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The line where more work, well apart from less, needed no more: a validation whose batch is its own."""
    if len(points) < 2:
        return None
    (least, y0), (most, y1) = min(points), max(points)
    return (max(y0, y1), 0.0) if y1 <= y0 and most > 1.05 * least else None


def load(rung: Rung, side: Side) -> float:
    """Samples times the size of each, in no unit: what memory is affine in."""
    amount = 1.0
    replaced = {of for wheel, of in _VALIDATION.items() if side == "validation" and _number(rung.values.get(wheel)) is not None}
    for wheel, value in rung.values.items():
        if (size := _number(value)) is None or wheel in replaced:
            continue
        if wheel in _LINEAR or (side == "validation" and wheel in _VALIDATION):
            amount *= size
        elif wheel in _SQUARED:
            amount *= size * size
        elif wheel == "multi_scale":
            amount *= (1 + size) ** 2
    return amount


def _model(rung: Rung, side: Side) -> tuple[tuple[str, str], ...]:
    """All that makes a rung another model, rather than more of the same work."""
    amounts = {*_LINEAR, *_SQUARED, *_VALIDATION, "multi_scale"}
    return tuple((wheel, repr(value)) for wheel, value in rung.values.items() if wheel not in amounts or _number(value) is None)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
