"""Chooses which rung to try next from the verdicts so far. Pure: the same history always gives the same move.

``walk`` goes down the ladder and skips what a real failure dominates; ``exhaustive`` skips nothing and is the reference that
every other search must equal. ``predicted`` goes where the forecast points and is led by what really happens: docs/decisions/015.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from launcher.ladder import extrapolation
from launcher.ladder.extrapolation import Measured, asks_as_much
from launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.report import Phase


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A rung and what a real trial of it said."""

    rung: Rung
    verdict: Verdict
    need: float | None = None
    """Its peak as a part of its cap; None where that wasn't seen."""
    by_phase: Mapping[str, float] = field(default_factory=dict)
    """The same of each phase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """Try this rung next."""

    rung: Rung
    why: str = field(default="", compare=False)
    """In words, where it isn't simply the next of the ladder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """This rung has a real trial that fits, and every rung above it really failed or is dominated by one that did."""

    rung: Rung


@dataclass(frozen=True, kw_only=True, slots=True)
class NothingLeft:
    """Nothing more to try: no rung is left, or a failure that no lower rung can cure."""

    why: Literal["exhausted", "not_memory"]


Move = Try | Chosen | NothingLeft


Policy = Literal["walk", "exhaustive", "predicted"]


def next_move(
    ladder: Ladder,
    history: Sequence[Tried],
    *,
    policy: Policy = "walk",
    predicted: Mapping[int, float | None] | None = None,
    asked_first: bool = False,
) -> Move:
    """What to do after ``history``, in which every rung stands at most once, save where others held the card: it is tried again then.

    ``predicted``: for the policy of that name, what each rung will need as a part of the cap, as far as that is known. ``asked_first``:
    rung 0 is tried before any other, whatever is predicted: it shows whether the ladder was made of the right words.
    """
    if asked_first and not any(tried.rung.index == 0 and tried.verdict.kind is not Kind.CARD_TAKEN for tried in history):
        return Try(rung=ladder.asked)
    if policy == "predicted":
        return _predicted(ladder, history, predicted or {})
    for tried in history:
        if tried.verdict.fits:
            return Chosen(rung=tried.rung)
        if not tried.verdict.lower_rung_may_help and tried.verdict.kind is not Kind.CARD_TAKEN and not _passed_over(tried, history):
            return NothingLeft(why="not_memory")
    done = {tried.rung.index for tried in history if tried.verdict.kind is not Kind.CARD_TAKEN}  # that one says nothing of its rung
    for rung in ladder.rungs:
        if rung.index in done:
            continue
        if policy == "walk" and dominated_by(ladder, rung, history) is not None:
            continue
        return Try(rung=rung)
    return NothingLeft(why="exhausted")


def most_left(ladder: Ladder, history: Sequence[Tried], *, policy: Policy) -> int:
    """Trials that are still to be made at most, where none is made twice: as many as the walk makes if everything fails late."""
    real = [tried for tried in history if tried.verdict.kind is not Kind.CARD_TAKEN]
    best = min((tried.rung.index for tried in real if tried.verdict.fits), default=len(ladder.rungs))
    done = {tried.rung.index for tried in real}
    left = [rung for rung in ladder.rungs[:best] if rung.index not in done]
    if policy == "exhaustive":
        return len(left)
    left = [rung for rung in left if dominated_by(ladder, rung, real) is None]
    failed: list[Tried] = []
    for rung in left:
        if dominated_by(ladder, rung, failed) is None:
            failed.append(Tried(rung=rung, verdict=Verdict(kind=Kind.OUT_OF_MEMORY, phase=Phase.VALIDATE, why="")))
    return min(len(left), len(failed) + (FREE_BORNE_OUT if policy == "predicted" else 0))


def _passed_over(crashed: Tried, history: Sequence[Tried]) -> bool:
    """Whether a crash is its rung's own (a last batch of one image, a size that the model doesn't take), so that the walk goes on.

    So it is where a trial above came further. Where none did, but one ran into memory just there, another rung is asked: the same
    words once more are the trainer's.
    """
    if crashed.verdict.kind is not Kind.CRASHED:
        return False
    at, others = _PHASES.index(crashed.verdict.phase), [tried for tried in history if tried.verdict.kind is not Kind.CRASHED]
    if any(_PHASES.index(tried.verdict.phase) > at for tried in others):
        return True
    above = [tried for tried in history if tried.rung.index <= crashed.rung.index]  # in a walk that is all there is
    crashes = [_NUMBERS.sub("#", tried.verdict.why) for tried in above if tried.verdict.kind is Kind.CRASHED]
    there = any(_PHASES.index(tried.verdict.phase) == at and tried.verdict.lower_rung_may_help for tried in others)
    return there and crashes.count(_NUMBERS.sub("#", crashed.verdict.why)) == 1


_PHASES = tuple(Phase)
"""In the order in which a trial goes through them."""
_NUMBERS = re.compile(r"\d+(\.\d+)?")
"""What differs between two rungs in the words of one and the same crash: shapes and sizes."""


def dominated_by(ladder: Ladder, rung: Rung, history: Sequence[Tried]) -> Tried | None:
    """The real memory failure that rules ``rung`` out untried, or None.

    A rung is out where it asks at least as much on every wheel as one that really ran out of memory. A failure in training
    before any validation says nothing of the wheels that act only in validation: those can't cure it, so they don't count.
    An ``altered`` trial is no measurement of its rung and dominates nothing, save the micro-batches between the asked one and the one
    that the trainer took by itself, which is tried first, and what ``_runs_otherwise`` says; nor does a failure of data loader workers or
    of page-locked memory, which is about the host. A script whose batch can't be put together from micro-batches rules out every rung
    that would have to.
    """
    for tried in history:
        verdict = tried.verdict
        if verdict.took is not None and _between(rung, tried, verdict.took):
            return tried
        if verdict.source == "accumulation" and rung.accumulation > ladder.asked.accumulation:
            return tried
        if _otherwise_in_training(ladder, verdict) and _differ_in_validation_alone(ladder, rung, tried.rung):
            return tried
        if verdict.kind not in (Kind.OUT_OF_MEMORY, Kind.SPILLED) or verdict.source in ("workers", "pinned"):
            continue
        before_validation = verdict.phase in _BEFORE_VALIDATION
        if all(
            at <= failed_at or (before_validation and wheel.acts_in == "validation")
            for wheel, at, failed_at in zip(ladder.wheels, rung.position, tried.rung.position, strict=True)
        ):
            return tried
    return _runs_otherwise(ladder, rung, history)


_BEFORE_VALIDATION = (Phase.START, Phase.SETUP, Phase.TRAIN)


def _otherwise_in_training(ladder: Ladder, verdict: Verdict) -> bool:
    """Whether something ran otherwise than told that no wheel of validation is."""
    return bool(set(verdict.otherwise) - {wheel.name for wheel in ladder.wheels if wheel.acts_in == "validation"})


def _differ_in_validation_alone(ladder: Ladder, one: Rung, other: Rung) -> bool:
    """What ran otherwise in training does so whatever validation's batch is."""
    pairs = zip(ladder.wheels, one.position, other.position, strict=True)
    return all(at == there for wheel, at, there in pairs if wheel.acts_in != "validation")


def _runs_otherwise(ladder: Ladder, rung: Rung, history: Sequence[Tried]) -> Tried | None:
    """The second of two rungs at which one setting ran otherwise than told, where ``rung`` turns that setting, too, as they do (or leaves
    it as asked, as they do): the fault doesn't hang on how far. None where such a rung fits all the same."""
    for name in dict.fromkeys(name for tried in history for name in tried.verdict.otherwise):
        alike = [tried for tried in history if _turns(ladder, tried.rung, name) == _turns(ladder, rung, name)]
        faulty = [tried for tried in alike if name in tried.verdict.otherwise]
        if len({tried.rung.index for tried in faulty}) > 1 and not any(tried.verdict.fits for tried in alike):
            return faulty[1]
    return None


def _turns(ladder: Ladder, rung: Rung, name: str) -> bool:
    """Whether a rung has another value of a setting than the asked one."""
    if name == "accumulation":
        return rung.accumulation != ladder.asked.accumulation
    return rung.values.get(name) != ladder.asked.values.get(name)


def _between(rung: Rung, tried: Tried, took: int) -> bool:
    """Whether a rung is the tried one with a micro-batch that the trainer has gone below by itself."""
    same = all(value == tried.rung.values[name] for name, value in rung.values.items() if name != MICRO_BATCH)
    return same and took < rung.micro_batch <= tried.rung.micro_batch


# ----------------------------------------------------------------------------------------------------------------------
# The search that is led by a forecast

NEAR = 1.5
"""A forecast within this factor of what a trial then measured has been borne out."""
FAR = 3.0
"""A prediction further off than this is hopeless."""
OVER = 1.1
"""A failure that was forecast by so much bears the forecast out, too."""
FREE = 1
"""Trials that may turn out to be needless, for nothing has shown yet what the forecast is worth: the walk's number and this, no more."""
FREE_BORNE_OUT = 2
"""The same once a real trial has borne the forecast out."""
FIRST = 8
"""So many trials have shown what the forecast is worth."""


def _predicted(ladder: Ladder, history: Sequence[Tried], predicted: Mapping[int, float | None]) -> Move:
    """Closes every rung above the best that fits by as few failures as can be, and finds that best one where the forecast says.

    A failure that no lower rung cures ends the ladder there, as it ends a walk that has come so far: what lies above is walked.
    """
    real = [tried for tried in history if tried.verdict.kind is not Kind.CARD_TAKEN]
    best = min((tried.rung.index for tried in real if tried.verdict.fits), default=len(ladder.rungs))
    wall = min((tried.rung.index for tried in real if _is_wall(tried, history)), default=len(ladder.rungs))
    done = {tried.rung.index for tried in real}
    above = [rung for rung in ladder.rungs[: min(best, wall)] if rung.index not in done]
    left = [rung for rung in above if dominated_by(ladder, rung, real) is None]
    if left:
        wish = Try(rung=left[0]) if wall < best else _wished(ladder, left, real, predicted)
        if wish.rung is left[0] or _affordable(ladder, left[0], real, predicted):
            return wish if real or wish.rung is not left[0] else Try(rung=wish.rung)  # the asked one needs no reason
        return Try(rung=left[0], why="the next of the ladder: no trial has shown yet that the forecast can be relied on")
    if best < wall:
        return Chosen(rung=ladder.rungs[best])
    return NothingLeft(why="exhausted" if wall == len(ladder.rungs) else "not_memory")


def _is_wall(tried: Tried, history: Sequence[Tried]) -> bool:
    return not tried.verdict.fits and not tried.verdict.lower_rung_may_help and not _passed_over(tried, history)


def _wished(ladder: Ladder, left: Sequence[Rung], real: Sequence[Tried], predicted: Mapping[int, float | None]) -> Try:
    """Of the rungs that are neither tried nor out, the one to try if it could be chosen freely.

    The first whose forecast is within the cap is the answer if the forecast is right; what lies above it must really fail then, and
    that comes first: a failure is short, is needed anyway, and pays for a wrong guess after it.
    """
    followed = next((rung for tried in real if (rung := _taken_instead(ladder, tried)) in left), None)
    if followed is not None:
        return Try(rung=followed, why="the trainer went down to its micro-batch by itself")
    forecast = extrapolation.needs(left, seen_in(real), predicted)
    known = {rung.index: need for rung in left if (need := forecast[rung.index]) is not None}
    named = next((rung for rung in left if known.get(rung.index, 2.0) <= 1.0), None)
    if named is None and len(known) < len(left) and not any(tried.verdict.fits for tried in real):
        return Try(rung=_blind(_worth_turning(ladder, left, real), fits=False), why="nothing is foreseen; it strides down until one fits")
    if named is None and not known:
        return Try(rung=_blind(_worth_turning(ladder, left, real), fits=True), why="nothing is foreseen; it halves what is left")
    failing = [rung for rung in left if named is None or rung.index < named.index]
    if named is None:
        return Try(rung=_least(failing), why="no rung left is predicted to fit; its failure would rule out most of them")
    if not failing:
        return Try(rung=named, why="predicted to be the first that fits")
    return Try(rung=_least(failing), why=f"rung {named.index} is predicted to fit, and is taken once this one above it has really failed")


def _taken_instead(ladder: Ladder, tried: Tried) -> Rung | None:
    """The rung with the micro-batch that a trainer has gone down to by itself."""
    wanted = {**tried.rung.values, MICRO_BATCH: tried.verdict.took}
    return next((rung for rung in ladder.rungs if rung.values == wanted), None) if tried.verdict.took is not None else None


def _least(rungs: Sequence[Rung]) -> Rung:
    """The first of those that ask least: its failure closes most, and no failure of another would close it."""
    return next(rung for rung in rungs if not any(other is not rung and asks_as_much(rung, other) for other in rungs))


def _worth_turning(ladder: Ladder, left: Sequence[Rung], real: Sequence[Tried]) -> Sequence[Rung]:
    """The rungs to choose from where nothing is forecast: a wheel of validation stays where the first of them has it until a trial has
    failed in its validation, or after it. Where training runs out of memory such a wheel cures nothing, and its trial is wasted."""
    if any(not tried.verdict.fits and tried.verdict.phase not in _BEFORE_VALIDATION for tried in real):
        return left
    stay = [at for at, wheel in enumerate(ladder.wheels) if wheel.acts_in == "validation"]
    return [rung for rung in left if all(rung.position[at] == left[0].position[at] for at in stay)]


def _blind(left: Sequence[Rung], *, fits: bool) -> Rung:
    """Where nothing is forecast: bisection once a rung fits, before that strides that double, by what a failure would close."""
    closes = {rung.index: sum(asks_as_much(other, rung) for other in left) for rung in left}
    if fits:
        return min(left, key=lambda rung: (abs(2 * closes[rung.index] - len(left)), rung.index))
    reach = max(left[0].index, 2 * left[0].index - 1)
    return max((rung for rung in left if rung.index <= reach), key=lambda rung: (closes[rung.index], -rung.index))


def _affordable(ladder: Ladder, first: Rung, real: Sequence[Tried], predicted: Mapping[int, float | None]) -> bool:
    """Whether a trial below ``first`` may turn out to be needless: the walk's number of trials is kept to even then, but for ``FREE``.

    An example, micro-batches 16, 8, 4, 2, 1, nothing tried, rung 3 foreseen to fit. By rung 0 the walk has made one trial. Rung 2, whose
    failure the answer needs, and rung 0 after it are two: one too many, which ``FREE`` allows. Rung 2 fits against the forecast, and
    nothing above it is closed. One more guess (rung 1) and rung 0 after it would make three against one: two too many, which only a
    forecast that was borne out is given; otherwise rung 0 is next.
    """
    left = _walked(ladder, first, real) - len(real) - 2
    return left + FREE >= 0 or (left + FREE_BORNE_OUT >= 0 and _borne_out(real[:FIRST], predicted))


def _walked(ladder: Ladder, first: Rung, real: Sequence[Tried]) -> int:
    """Trials that the walk makes at least where nothing above ``first`` fits, with that one if it doesn't skip it.

    A rung that only the walk would have tried may have failed before any validation, and closed more for it than is closed here.
    """
    said = {tried.rung.index: tried for tried in real}
    refused = any(tried.verdict.source == "accumulation" for tried in real)
    walked: list[Tried] = []
    for rung in ladder.rungs[: first.index]:
        if dominated_by(ladder, rung, walked) is None:
            source: Literal["accumulation"] | None = "accumulation" if refused and rung.accumulation > ladder.asked.accumulation else None
            kind = Kind.ALTERED if source else Kind.OUT_OF_MEMORY
            assumed = Tried(rung=rung, verdict=Verdict(kind=kind, phase=Phase.TRAIN, why="", source=source))
            walked.append(said.get(rung.index, assumed))
    return len(walked) + (dominated_by(ladder, first, walked) is None)


def _borne_out(real: Sequence[Tried], predicted: Mapping[int, float | None]) -> bool:
    """Whether a real trial came out near what had been forecast of it, and none was far from what had been predicted from the first."""
    if any(_far(tried, predicted.get(tried.rung.index)) for tried in real):
        return False
    for at, tried in enumerate(real):
        seen = seen_in([tried])
        forecast = extrapolation.needs([tried.rung], seen_in(real[:at]), predicted)[tried.rung.index] if seen else None
        if forecast is None or not forecast:
            continue
        if tried.verdict.fits and 1 / NEAR <= seen[0].need / forecast <= NEAR:
            return True
        measured = any(before.verdict.fits for before in real[:at])  # without that any failure would bear out what failures have lifted
        if not tried.verdict.fits and measured and OVER <= forecast <= NEAR**2 and seen[0].need <= NEAR * forecast:
            return True
    return False


def _far(tried: Tried, predicted: float | None) -> bool:
    return bool(tried.verdict.fits and tried.need and predicted and not 1 / FAR <= tried.need / predicted <= FAR)


def seen_in(real: Sequence[Tried]) -> list[Measured]:
    """What the trials that measured something of their rung say of the others'."""
    return [
        Measured(
            rung=tried.rung,
            need=tried.need if tried.verdict.fits else max(tried.need, 1.0),
            fits=tried.verdict.fits,
            by_phase=tried.by_phase,
            failed_in="" if tried.verdict.fits else tried.verdict.phase,
        )
        for tried in real
        if tried.need is not None
        and (tried.verdict.fits or (tried.verdict.kind is Kind.OUT_OF_MEMORY and tried.verdict.source not in ("workers", "pinned")))
    ]
