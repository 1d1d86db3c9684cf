"""Verdicts so far -> which rung to try next. Pure: the same history always gives the same move.

``walk`` goes down the ladder and skips what a real failure dominates; ``exhaustive`` skips nothing and is the reference that
every other search must equal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from launcher.contract.report import Phase
from launcher.ladder import MICRO_BATCH, Ladder, Rung
from launcher.verdict import Kind, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A rung and what a real trial of it said."""

    rung: Rung
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """Try this rung next."""

    rung: Rung


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """This rung has a real trial that fits, and every rung above it really failed or is dominated by one that did."""

    rung: Rung


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """Nothing more to try: no rung is left, or a failure that no lower rung can cure."""

    why: Literal["exhausted", "not_memory"]


Move = Try | Chosen | Stop


def next_move(ladder: Ladder, history: Sequence[Tried], *, policy: Literal["walk", "exhaustive"] = "walk") -> Move:
    """What to do after ``history``, in which every rung stands at most once, save where others held the card: it is tried again then."""
    for tried in history:
        if tried.verdict.fits:
            return Chosen(rung=tried.rung)
        if not tried.verdict.lower_rung_may_help and tried.verdict.kind is not Kind.CARD_TAKEN and not _passed_over(tried, history):
            return Stop(why="not_memory")
    done = {tried.rung.index for tried in history if tried.verdict.kind is not Kind.CARD_TAKEN}  # that one says nothing of its rung
    for rung in ladder.rungs:
        if rung.index in done:
            continue
        if policy == "walk" and dominated_by(ladder, rung, history) is not None:
            continue
        return Try(rung=rung)
    return Stop(why="exhausted")


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
    crashes = [_NUMBERS.sub("#", tried.verdict.why) for tried in history if tried.verdict.kind is Kind.CRASHED]
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
    that the trainer took by itself, which is tried first; nor does a failure of data loader workers or of
    page-locked memory, which is about the host. A script whose batch can't be put together from micro-batches rules out every rung
    that would have to.
    """
    for tried in history:
        verdict = tried.verdict
        if verdict.took is not None and _between(rung, tried, verdict.took):
            return tried
        if verdict.source == "accumulation" and rung.accumulation > ladder.asked.accumulation:
            return tried
        if verdict.kind not in (Kind.OUT_OF_MEMORY, Kind.SPILLED) or verdict.source in ("workers", "pinned"):
            continue
        before_validation = verdict.phase in (Phase.START, Phase.SETUP, Phase.TRAIN)
        if all(
            at <= failed_at or (before_validation and wheel.acts_in == "validation")
            for wheel, at, failed_at in zip(ladder.wheels, rung.position, tried.rung.position, strict=True)
        ):
            return tried
    return None


def _between(rung: Rung, tried: Tried, took: int) -> bool:
    """Whether a rung is the tried one with a micro-batch that the trainer has gone below by itself."""
    same = all(value == tried.rung.values[name] for name, value in rung.values.items() if name != MICRO_BATCH)
    return same and took < rung.micro_batch <= tried.rung.micro_batch
