"""Chooses which rung to try next from the verdicts so far. Pure: the same history always gives the same move.

All policies end at the same rung: the first one whose own trial fits, once every rung above it has really failed or is dominated by one
that did. ``walk`` goes down the ladder and skips what a failure dominates; ``exhaustive`` skips nothing and is the reference. ``predicted``
estimates what untried rungs need by a line through the trials that were measured. Estimates order the trials, and decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import ge
from typing import Literal

from autofit_launcher.common.memory_failures import OF_MACHINE
from autofit_launcher.common.report import Phase
from autofit_launcher.ladder.rungs import ACCUMULATION, CHECKPOINTING, MICRO_BATCH, Ladder, Rung
from autofit_launcher.ladder.verdict import Kind, Verdict

Policy = Literal["walk", "exhaustive", "predicted"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A rung and the verdict of its real trial."""

    rung: Rung
    verdict: Verdict
    need: float | None = None
    """The peak as a fraction of the cap; None if the peak wasn't measured."""
    by_phase: Mapping[str, float] = field(default_factory=dict)
    """The peak of each phase as a fraction of the cap."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """Try this rung next."""

    rung: Rung


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """The search is over: this rung has a real trial that fits, and each above it really failed or is dominated by one that did."""

    rung: Rung


@dataclass(frozen=True, kw_only=True, slots=True)
class NothingLeft:
    """The search is over: no rung is left, or no lower rung can cure the last failure."""

    why: Literal["exhausted", "not_memory"]


Move = Try | Chosen | NothingLeft


def next_move(ladder: Ladder, history: Sequence[Tried], *, policy: Policy = "walk", asked_first: bool = False) -> Move:
    """The next move after the trials in ``history``. A rung is in it at most once, except for trials whose card was taken.

    ``asked_first``: rung 0 is tried before any other, since it shows whether the command was read right.
    """
    real = [tried for tried in history if tried.verdict.kind is not Kind.CARD_TAKEN]
    if asked_first and all(tried.rung.index for tried in real):
        return Try(rung=ladder.asked)
    ends = len(ladder.rungs)
    best = min((tried.rung.index for tried in real if tried.verdict.fits), default=ends)
    wall = min((one.rung.index for one in real if not one.verdict.fits and not one.verdict.lower_rung_may_help), default=ends)
    done = {tried.rung.index for tried in real}
    left = [rung for rung in ladder.rungs[: min(best, wall)] if rung.index not in done]
    if policy != "exhaustive":
        left = [rung for rung in left if dominated_by(ladder, rung, real) is None]
    if left:
        return Try(rung=_wished(ladder, left, real) if policy == "predicted" and best <= wall else left[0])
    if best < wall:
        return Chosen(rung=ladder.rungs[best])
    return NothingLeft(why="exhausted" if wall == ends else "not_memory")


def dominated_by(ladder: Ladder, rung: Rung, history: Sequence[Tried]) -> Tried | None:
    """The real failure that rules ``rung`` out without a trial, or None."""
    return next((tried for tried in history if _rules_out(ladder, tried, rung)), None)


def _rules_out(ladder: Ladder, tried: Tried, rung: Rung) -> bool:
    """Tells whether one failure rules ``rung`` out.

    - A rung is out if it turns no wheel further than one that ran out of memory. After a failure in training, wheels that act only in
      validation don't count: they can't cure it. Nor do those that act beside the device.
    - A setting that ran otherwise than told rules out all rungs with the same value.
    - A failure of what the machine has beside the device (``OF_MACHINE``) rules out rungs that turn no wheel that acts there, as long as
      one could be turned further; else those that turn nothing further. For a full disk only such a wheel is a cure, and not ``workers``.
    - A script whose batch can't be made of micro-batches rules out every rung with more accumulation than asked; one that can't be
      checkpointed from outside, every rung that is.
    """
    verdict, before = tried.verdict, tried.verdict.phase in _BEFORE_VALIDATION
    wheels = list(zip(ladder.wheels, rung.position, tried.rung.position, strict=True))
    further = [wheel for wheel, at, failed in wheels if at > failed and not (before and wheel.acts_in == "validation")]
    if verdict.source == ACCUMULATION:
        return rung.accumulation > ladder.asked.accumulation
    if verdict.source == CHECKPOINTING:
        return bool(rung.values.get(CHECKPOINTING))
    if verdict.otherwise:
        own, ran = ({**one.values, ACCUMULATION: one.accumulation} for one in (rung, tried.rung))
        return any(own.get(name) == ran.get(name) for name in verdict.otherwise)
    if verdict.source in OF_MACHINE:
        disk = verdict.source == "disk"
        could = disk or any(wheel.acts_in == "host" and at + 1 < len(wheel.values) for wheel, _, at in wheels)
        cured = any(wheel.acts_in == "host" and not (disk and wheel.name == "workers") for wheel in further)
        return not (cured if could else further)
    return verdict.kind in (Kind.OUT_OF_MEMORY, Kind.SPILLED) and all(wheel.acts_in == "host" for wheel in further)


_BEFORE_VALIDATION = (Phase.START, Phase.SETUP, Phase.TRAIN)


STRIDE = 3
"""The next rung is at most so many times as far down the ladder where nothing tells what its kind of rung needs."""


def _wished(ladder: Ladder, left: Sequence[Rung], seen: Sequence[Tried]) -> Rung:
    """The rung that is best tried next.

    Until one is known to fit, that is the first that may fit: its failure rules out most of those above. Then the failures come first
    that the estimated rung needs, of the rung that asks least: such a trial is short, and if it fits it is the better rung.
    """
    left = _worth_turning(ladder, left, seen)
    need, fits = estimates(left, seen), any(tried.verdict.fits for tried in seen)
    may = [rung for rung in left if need.get(rung.index, 2.0 if fits else 0.0) <= 1.0]
    if not may:
        return _least(left)
    if fits and may[0] is not left[0]:
        return _least(left[: left.index(may[0])])
    return may[0] if may[0].index in need else _least([rung for rung in may if rung.index <= max(may[0].index, STRIDE * may[0].index - 1)])


def _worth_turning(ladder: Ladder, left: Sequence[Rung], seen: Sequence[Tried]) -> Sequence[Rung]:
    """The rungs to choose from: wheels of validation are left alone until a trial has failed in validation or later. They cure no other."""
    if any(not tried.verdict.fits and tried.verdict.phase not in _BEFORE_VALIDATION for tried in seen):
        return left
    stay = [at for at, wheel in enumerate(ladder.wheels) if wheel.acts_in == "validation"]
    return [rung for rung in left if all(rung.position[at] == left[0].position[at] for at in stay)]


def _least(rungs: Sequence[Rung]) -> Rung:
    """Returns the first of the rungs that ask least: its failure rules out most others, and no other's failure rules it out."""
    return next(rung for rung in rungs if not any(one is not rung and all(map(ge, one.position, rung.position)) for one in rungs))


# What untried rungs need: memory is affine in the samples of a micro-batch times the size of each

STANDING = 0.3
"""Part of a peak taken not to grow with the batch, while one trial is all there is: weights, gradients, optimizer."""
APART, RISEN = 1.05, 1.02
"""Two trials give a line if one has this many times the other's work (failures: this many times the other's peak, too); else their noise
would be its slope."""
_LINEAR = frozenset({MICRO_BATCH, "segment", "sequence_length", "label_length", "audio_seconds"})
_SQUARED = frozenset({"image_size"})
_VALIDATION = {"val_micro_batch": MICRO_BATCH, "generation_length": "generation_length"}
"""Wheel that grows validation alone -> the wheel in whose place it does."""
_AMOUNTS = _LINEAR | _SQUARED | set(_VALIDATION)
_SIDES = ((Phase.TRAIN, Phase.TRAIN_AGAIN), (Phase.VALIDATE, Phase.FINISH))
"""Phases of training, phases of validation."""


def estimates(rungs: Sequence[Rung], seen: Sequence[Tried]) -> dict[int, float]:
    """Rung index -> its estimated need as a part of the cap: the larger of training's and validation's. Rungs of which no trial of the same
    model tells are left out; all wheels but amounts of work make another model.
    """
    found = {}
    for rung in rungs:
        alike = [tried for tried in seen if _tells(tried) and _model(tried.rung) == _model(rung)]
        itself = next((tried for tried in alike if tried.rung.values == rung.values), None)
        training, validation = (_at(load(rung, validates=at), [*_points(alike, validates=at)]) for at in (False, True))
        if training is not None:
            found[rung.index] = max(training, validation or 0.0) if itself is None else _whole(itself)
    return found


def _tells(tried: Tried) -> bool:
    """Tells whether a trial says anything of what its rung needs of the device."""
    of_device = tried.verdict.kind in (Kind.FITS, Kind.OUT_OF_MEMORY) and tried.verdict.source not in OF_MACHINE
    return of_device and tried.need is not None


def _whole(tried: Tried) -> float:
    """The need of a trial that tells it; of a failure more than the cap."""
    return (tried.need or 0.0) if tried.verdict.fits else max(tried.need or 0.0, 1.001)


def _points(seen: Sequence[Tried], *, validates: bool) -> Iterator[tuple[float, float, bool]]:
    """Returns (work, need, whether it was measured; else more was needed) of training or validation in each trial that tells it."""
    for tried in seen:
        amount = load(tried.rung, validates=validates)
        peaks = [peak for phase, peak in tried.by_phase.items() if phase in _SIDES[validates]]
        if not tried.verdict.fits and (tried.verdict.phase in _SIDES[True]) is validates:
            yield amount, _whole(tried), False
        elif peaks or (tried.verdict.fits and not validates and not tried.by_phase):
            yield amount, max(peaks, default=_whole(tried)), True


def _at(amount: float, points: Sequence[tuple[float, float, bool]]) -> float | None:
    """The need at this amount of work: on the line through two points, or one and ``STANDING``, so steep that no failure lies above it."""
    if not points:
        return None
    exact, failed = sorted(point for point in points if point[2]), sorted(points)[:2]
    (x, y, _), (other, high, _) = (exact[0], exact[-1]) if exact else (failed[0], failed[-1])
    each = (1 - STANDING) * y / x
    if other > APART * x and (exact or high > RISEN * y):
        each = max(high - y, 0.0) / (other - x)
    each = max([each, *((need - y) / (work - x) for work, need, measured in points if not measured and work > APART * x)])
    return y + each * (amount - x)


def load(rung: Rung, *, validates: bool) -> float:
    """Multiplies the number of samples by the size of each; the product has no unit."""
    replaced = {of for wheel, of in _VALIDATION.items() if validates and _number(rung.values.get(wheel))}
    amount = 1.0
    for wheel, value in rung.values.items():
        if wheel in _AMOUNTS and wheel not in replaced and (validates or wheel not in _VALIDATION):
            amount *= _number(value) ** (2 if wheel in _SQUARED else 1) or 1.0
    return amount


def _model(rung: Rung) -> Sequence[tuple[str, str]]:
    """Names all that makes a rung another model, rather than more of the same work."""
    return [(wheel, repr(value)) for wheel, value in rung.values.items() if wheel not in _AMOUNTS or not _number(value)]


def _number(value: object) -> float:
    """Returns a number as it is, and 0 for anything else."""
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
