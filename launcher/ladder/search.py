"""Chooses which rung to try next from the verdicts so far. Pure: the same history always gives the same move.

``walk`` goes down the ladder and skips what a real failure dominates; ``exhaustive`` skips nothing and is the reference that
every other search must equal. ``predicted`` starts where the forecast points and corrects it by each trial: docs/decisions/003.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from launcher.ladder import extrapolation
from launcher.ladder.extrapolation import Measured, asks_as_much
from launcher.ladder.rungs import CHECKPOINTING, MICRO_BATCH, Ladder, Rung
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.memory_failures import OF_MACHINE
from launcher.shared.report import Phase


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A rung and the verdict of its real trial."""

    rung: Rung
    verdict: Verdict
    need: float | None = None
    """Its peak as a fraction of its cap; None if the peak wasn't measured."""
    by_phase: Mapping[str, float] = field(default_factory=dict)
    """The same of each phase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """Try this rung next."""

    rung: Rung
    why: str = field(default="", compare=False)
    """The reason, for the screen; empty if it is simply the next rung of the ladder."""


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
    """The next move after the trials in ``history``. A rung is in it at most once, except for trials whose card was taken.

    ``predicted``: rung index -> predicted need as a fraction of the cap (None: unknown), for the policy of that name.
    ``asked_first``: rung 0 is tried before any other, since it shows whether the command was read right.
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
    """The most trials still to be made, none twice: as many as the walk makes if every trial fails as late as it can."""
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
    """Whether a crash is due to its rung (a last batch of one image, a size that the model doesn't take), so that the search goes on.

    It is if a trial of another rung came further. If none did, but one ran out of memory in the same phase, the search also goes on,
    until a second rung crashes with the same words: then the trainer is at fault.
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
"""Numbers (shapes, sizes) are ignored when the words of two crashes are compared."""


def dominated_by(ladder: Ladder, rung: Rung, history: Sequence[Tried]) -> Tried | None:
    """The real failure that rules ``rung`` out without a trial, or None.

    - A rung is out if it asks at least as much on every wheel as one of as many cards that ran out of memory. After a failure in training,
      wheels that act only in validation don't count: they can't cure it. Nor do those that act beside the device.
    - A trainer that lowered its micro-batch by itself rules out the micro-batches in between; the one it took is tried first.
    - A setting that ran otherwise than told in training rules out rungs that differ only in validation, and what ``_runs_otherwise`` says.
      Otherwise an ``altered`` trial rules nothing out.
    - A failure of what the machine has beside the device (``OF_MACHINE``) rules out rungs that turn no wheel that acts there, as long as
      one could be turned further, and, where it came before validation, those that differ there alone. One of host memory also rules out
      rungs that ask at least as much on every wheel; others don't.
    - A script whose batch can't be made of micro-batches rules out every rung with more accumulation than asked; one that can't be
      checkpointed from outside, every rung that is.
    """
    for tried in history:
        verdict = tried.verdict
        if verdict.took is not None and _between(rung, tried, verdict.took):
            return tried
        if verdict.source == "accumulation" and rung.accumulation > ladder.asked.accumulation:
            return tried
        if verdict.source == CHECKPOINTING and rung.values.get(CHECKPOINTING):
            return tried
        if _otherwise_in_training(ladder, verdict) and _differ_in_validation_alone(ladder, rung, tried.rung):
            return tried
        if verdict.kind not in (Kind.OUT_OF_MEMORY, Kind.SPILLED) or verdict.source in OF_MACHINE:
            leaves = _leaves_the_disk if verdict.source == "disk" else _leaves_the_host
            before = verdict.phase in _BEFORE_VALIDATION and _differ_in_validation_alone(ladder, rung, tried.rung)
            if verdict.source in OF_MACHINE and (before or leaves(ladder, rung, tried.rung)):
                return tried
            if verdict.source == "host_memory" and rung.world_size == tried.rung.world_size and asks_as_much(rung, tried.rung):
                return tried
            continue
        before_validation = verdict.phase in _BEFORE_VALIDATION
        if rung.world_size == tried.rung.world_size and all(
            at <= failed_at or wheel.acts_in == "host" or (before_validation and wheel.acts_in == "validation")
            for wheel, at, failed_at in zip(ladder.wheels, rung.position, tried.rung.position, strict=True)
        ):
            return tried
    return _runs_otherwise(ladder, rung, history)


def _leaves_the_host(ladder: Ladder, rung: Rung, failed: Rung) -> bool:
    """Whether a rung turns none of the wheels that act beside the device further than a failed one, though one of them could be."""
    wheels = [at for at, wheel in enumerate(ladder.wheels) if wheel.acts_in == "host"]
    could = any(failed.position[at] + 1 < len(ladder.wheels[at].values) for at in wheels)
    return could and not any(rung.position[at] > failed.position[at] for at in wheels)


def _leaves_the_disk(ladder: Ladder, rung: Rung, failed: Rung) -> bool:
    """Whether a rung saves as much as a failed one: loader workers and batches are in no checkpoint."""
    pairs = zip(ladder.wheels, rung.position, failed.position, strict=True)
    turned = [wheel for wheel, at, there in pairs if at > there and wheel.name != "workers"]
    return not any(wheel.acts_in == "host" or wheel.name in _SAVED for wheel in turned)


_SAVED = ("model", "lora", "optimizer")
"""Wheels that change what a checkpoint holds."""
_BEFORE_VALIDATION = (Phase.START, Phase.SETUP, Phase.TRAIN)


def _otherwise_in_training(ladder: Ladder, verdict: Verdict) -> bool:
    """Whether a setting other than validation's ran otherwise than told."""
    return bool(set(verdict.otherwise) - {wheel.name for wheel in ladder.wheels if wheel.acts_in == "validation"})


def _differ_in_validation_alone(ladder: Ladder, one: Rung, other: Rung) -> bool:
    """Whether two rungs are the same except for wheels that act only in validation."""
    pairs = zip(ladder.wheels, one.position, other.position, strict=True)
    return all(at == there for wheel, at, there in pairs if wheel.acts_in != "validation")


def _runs_otherwise(ladder: Ladder, rung: Rung, history: Sequence[Tried]) -> Tried | None:
    """A setting that ran otherwise than told at two rungs does so at ``rung``, too, if all three change it, or all leave it as asked.

    Returns the second of those trials; None if there are no two, or if a rung like them fits all the same.
    """
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
    """Whether ``rung`` is the tried one with a micro-batch between the asked one and ``took``, which the trainer took by itself."""
    same = all(value == tried.rung.values[name] for name, value in rung.values.items() if name != MICRO_BATCH)
    return same and took < rung.micro_batch <= tried.rung.micro_batch


# ----------------------------------------------------------------------------------------------------------------------
# The search that is led by predictions

NEAR = 1.5
"""A forecast within this factor of what the trial measured counts as confirmed."""
FAR = 3.0
"""A prediction off by more than this factor makes all predictions untrusted."""
OVER = 1.1
"""A failure whose forecast was at least this many times the cap confirms the forecast, too."""
FREE = 1
"""The search may take this many trials more than the walk, as long as no trial has confirmed the forecast."""
FREE_BORNE_OUT = 2
"""The same, once a trial has confirmed the forecast."""
FIRST = 8
"""Only this many trials, the first ones, can confirm the forecast."""


def _predicted(ladder: Ladder, history: Sequence[Tried], predicted: Mapping[int, float | None]) -> Move:
    """Finds the first rung that fits, as the walk does, with as few trials as the forecast allows.

    Every rung above the chosen one must have failed, or be dominated by a failure. A failure that no lower rung cures ends the ladder at
    its rung; the rungs above are then tried in order.
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
    """The rung in ``left`` (neither tried nor ruled out) that is best tried next, if the number of trials were no matter.

    If the forecast is right, the first rung within the cap is the answer. The rungs above it must really fail, and they are tried first: a
    failure is short, is needed anyway, and makes up for a wrong guess later.
    """
    followed = next((rung for tried in real if (rung := _taken_instead(ladder, tried)) in left), None)
    if followed is not None:
        return Try(rung=followed, why="the trainer went down to its micro-batch by itself")
    forecast = extrapolation.needs(left, seen_in(real), predicted)
    known = {rung.index: need for rung in left if (need := forecast[rung.index]) is not None}
    named = next((rung for rung in left if known.get(rung.index, 2.0) <= 1.0), None)
    if named is None and len(known) < len(left) and not any(tried.verdict.fits for tried in real):
        return Try(rung=_blind(_worth_turning(ladder, left, real), fits=False), why="there is no forecast: larger steps until one fits")
    if named is None and not known:
        return Try(rung=_blind(_worth_turning(ladder, left, real), fits=True), why="there is no forecast: the one that halves what is left")
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
    """The first of the rungs that ask least: its failure rules out most others, and no other's failure rules it out."""
    return next(rung for rung in rungs if not any(other is not rung and asks_as_much(rung, other) for other in rungs))


def _worth_turning(ladder: Ladder, left: Sequence[Rung], real: Sequence[Tried]) -> Sequence[Rung]:
    """The rungs to choose from without a forecast: wheels of validation are left alone until a trial has failed in validation or later,
    those of the host until one has failed there.

    When training runs out of memory such a wheel cures nothing, and its trial would be wasted.
    """
    there = {"host"} if any(tried.verdict.source in OF_MACHINE for tried in real) else set()
    there |= {"validation"} if any(not tried.verdict.fits and tried.verdict.phase not in _BEFORE_VALIDATION for tried in real) else set()
    stay = [at for at, wheel in enumerate(ladder.wheels) if wheel.acts_in in {"validation", "host"} - there]
    return [rung for rung in left if all(rung.position[at] == left[0].position[at] for at in stay)]


def _blind(left: Sequence[Rung], *, fits: bool) -> Rung:
    """The rung to try without a forecast: in strides that double until a rung fits, then by bisection of what is left."""
    closes = {rung.index: sum(asks_as_much(other, rung) for other in left) for rung in left}
    if fits:
        return min(left, key=lambda rung: (abs(2 * closes[rung.index] - len(left)), rung.index))
    reach = max(left[0].index, 2 * left[0].index - 1)
    return max((rung for rung in left if rung.index <= reach), key=lambda rung: (closes[rung.index], -rung.index))


def _affordable(ladder: Ladder, first: Rung, real: Sequence[Tried], predicted: Mapping[int, float | None]) -> bool:
    """Whether a trial below ``first`` is allowed: even if it is needless, the search makes at most ``FREE`` trials more than the walk.

    Example: micro-batches 16, 8, 4, 2, 1, nothing tried, rung 3 predicted to fit. If rung 0 fits, the walk needs one trial. The search
    would try rung 2 first, whose failure it needs. If rung 2 fits against the forecast, rung 0 is still open: two trials, one too many,
    which ``FREE`` allows. Another guess (rung 1) before rung 0 would make three, two too many, which only a confirmed forecast is
    allowed; otherwise rung 0 is next.
    """
    left = _walked(ladder, first, real) - len(real) - 2
    return left + FREE >= 0 or (left + FREE_BORNE_OUT >= 0 and _borne_out(real[:FIRST], predicted))


def _walked(ladder: Ladder, first: Rung, real: Sequence[Tried]) -> int:
    """The fewest trials with which the walk reaches ``first`` if every rung above it fails; ``first`` included if the walk tries it.

    Rungs that were not really tried are taken to fail in training, which rules out most.
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
    """Whether a trial came out near its forecast, and none was far from what was predicted before any trial."""
    if any(_far(tried, predicted.get(tried.rung.index)) for tried in real):
        return False
    for at, tried in enumerate(real):
        seen = seen_in([tried])
        forecast = extrapolation.needs([tried.rung], seen_in(real[:at]), predicted)[tried.rung.index] if seen else None
        if forecast is None or not forecast:
            continue
        if tried.verdict.fits and 1 / NEAR <= seen[0].need / forecast <= NEAR:
            return True
        measured = any(before.verdict.fits for before in real[:at])  # a forecast that only failures have raised confirms nothing
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
        and (tried.verdict.fits or (tried.verdict.kind is Kind.OUT_OF_MEMORY and tried.verdict.source not in OF_MACHINE))
    ]
