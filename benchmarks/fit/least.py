"""What the walk really did in a case -> what a search that knew every need beforehand would have had to do. No search can do with less."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from autofit_launcher.ladder.rungs import Ladder, Wheel, build
from autofit_launcher.ladder.search import Tried, dominated_by
from autofit_launcher.ladder.verdict import Kind, Verdict
from benchmarks.common.rows import ROOT, Row

LADDERS = ROOT / "benchmarks" / "results" / "fit_ladders.json"
"""Ask -> the ladder that it had when it was played: recipes change."""


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


def undecided(found: Mapping[str, Row]) -> set[int]:
    """Rungs that fitted in one search and failed in another: two trials of one rung differ by some MiB, and the cap lay between."""
    said: dict[int, set[bool]] = {}
    for row in found.values():
        for one in row["trials"]:
            said.setdefault(one["rung_index"], set()).add(one["verdict"] == "fits")
    return {rung for rung, verdicts in said.items() if len(verdicts) == 2}


@cache
def ladder_of(ask: str) -> Ladder:
    said = json.loads(LADDERS.read_text(encoding="utf-8"))[ask]
    wheels = [Wheel(name=one["name"], values=tuple(one["values"]), acts_in=one["acts_in"]) for one in said["wheels"]]
    return build(wheels, effective_batch=said["effective_batch"])
