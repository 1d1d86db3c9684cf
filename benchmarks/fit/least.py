"""What the walk really did in a case -> what a search that knew every need beforehand would have had to do. No search can do with less."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from benchmarks.common.rows import Row
from benchmarks.fit.cases import ASKS, DEEP
from launcher.cli import suggestions
from launcher.config import compose
from launcher.engine import prepare
from launcher.ladder.rungs import Ladder
from launcher.ladder.search import Tried, dominated_by
from launcher.ladder.verdict import Kind, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Least:
    """The answer's trial, and the fewest failures that rule out all above it."""

    trials: int
    share: float
    """Of the walk's seconds, the launch's own included."""


def of(walk: Row) -> Least:
    """``walk``: a row of the search of that name. Its failures are looked at from the last, which closes most."""
    ladder, proof, seconds, trials = ladder_of(walk["ask"]), list[Tried](), 0.0, 0
    for trial in reversed(walk["trials"]):
        verdict = Verdict(kind=Kind(trial["verdict"]), phase=trial["phase"], why="")
        tried = Tried(rung=ladder.rungs[trial["rung_index"]], verdict=verdict)
        if verdict.fits or dominated_by(ladder, tried.rung, proof) is None:
            seconds, trials = seconds + trial["seconds"], trials + 1
            proof += [] if verdict.fits else [tried]
    of_the_launch = walk["seconds"] - sum(trial["seconds"] for trial in walk["trials"])
    return Least(trials=trials, share=(seconds + of_the_launch) / walk["seconds"])


@cache
def ladder_of(ask: str) -> Ladder:
    (draft,) = compose.drafts([*{**ASKS, **DEEP}[ask], "device=cpu"], program="autofit ladder", advice=suggestions)
    return prepare.ladder_of(draft)
