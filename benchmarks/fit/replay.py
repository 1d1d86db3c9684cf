"""Replays first launches without a trial: the walk, and the search as it is now, on needs that are known.

python -m benchmarks.fit.replay

A rung fits under a cap as it did in that case, or as trials of it under other caps in fit.jsonl tell; of a rung of which none tells, as
fit_needs.json foretells (by a model of its training, in November 2026), in the measure of the ask's real peaks. A trial that fails is seen
to need ``SEEN_UP_TO`` of the cap at most there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import mean, median

from autofit_launcher.common.report import Phase
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.search import Chosen, Policy, Tried, Try, next_move
from autofit_launcher.ladder.verdict import Kind, Verdict
from benchmarks.common.rows import ROOT, Row, read
from benchmarks.fit.cases import SEARCHES, Case
from benchmarks.fit.least import ladder_of, undecided
from benchmarks.fit.play import DATA

NEEDS = ROOT / "benchmarks" / "results" / "fit_needs.json"
"""Ask -> rung -> phase -> bytes."""
SEEN_UP_TO = 1.11
LENGTHS = {"three or fewer": range(4), "four or five": range(4, 6), "six or more": range(6, 1000), "all": range(1000)}
"""Trials of the walk."""
Found = tuple[int | None, int]
"""The rung that a search has ended at, and its trials."""


class UntriedError(LookupError):
    """No real trial tells whether this rung fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """One first launch."""

    case: Case
    walk: Found
    now: Found


def searched(ask: str, outcome: Callable[[Rung], Tried], policy: Policy) -> Found:
    """A search to its end. Raises UntriedError."""
    history: list[Tried] = []
    while isinstance(move := next_move(ladder_of(ask), history, policy=policy), Try):
        history.append(outcome(move.rung))
    return (move.rung.index if isinstance(move, Chosen) else None), len(history)


def launches(rows: Sequence[Row]) -> Iterator[Replayed]:
    """Each case whose answer is beyond doubt, and whose search can be replayed."""
    by_case: dict[Case, dict[str, Row]] = {}
    for row in rows:
        if row["what"] == "searched":
            by_case.setdefault(Case(ask=row["ask"], part=row["part"]), {})[row["search"]] = row
    needs, asked = foretold_needs(), {row["ask"]: row["peak_bytes"] for row in rows if row["what"] == "measured"}
    for case, found in by_case.items():
        if not set(SEARCHES) <= set(found) or undecided(found):
            continue
        walk = found["walk"]
        mine, told = [row for row in rows if row["what"] == "searched" and row["ask"] == case.ask], needs.get(case.ask, {})
        trials = [(asked[case.ask] * row["part"], one) for row in mine for one in row["trials"]]
        cap = asked[case.ask] * case.part
        outcome = partial(_really, trials=[*trials, *_in_place(trials, told)], cap=cap, needs=told)
        with suppress(UntriedError):
            now = searched(case.ask, outcome, "predicted")
            yield Replayed(case=case, walk=(walk["rung_index"], len(walk["trials"])), now=now)


def _in_place(trials: Sequence[tuple[float, Row]], needs: Mapping[int, Mapping[str, float]]) -> Iterator[tuple[float, Row]]:
    """For each rung that no trial tells of, one that fits under any cap it may be held to."""
    fits = [one for _, one in trials if one["verdict"] == "fits" and one["rung_index"] in needs]
    scale = median(one["peak_bytes"] / max(needs[one["rung_index"]].values()) for one in fits) if fits else 1.0
    for at in needs.keys() - {one["rung_index"] for _, one in trials}:
        yield 0, {"rung_index": at, "verdict": "fits", "peak_bytes": scale * max(needs[at].values())}


def _really(rung: Rung, *, trials: Sequence[tuple[float, Row]], cap: float, needs: Mapping[int, Mapping[str, float]]) -> Tried:
    """The trial of a rung under a cap, by real ones (cap, trial); where those say nothing of a phase, by its part of foretold ``needs``."""
    mine = sorted(((under, one) for under, one in trials if one["rung_index"] == rung.index), key=lambda each: each[0])
    here, peaks = [one for under, one in mine if under == cap], [one["peak_bytes"] for _, one in mine if one["verdict"] == "fits"]
    above = [one for under, one in mine if under > cap and one["verdict"] != "fits"]
    if not (here or peaks or above):
        raise UntriedError(rung.index)
    peak = here[0]["peak_bytes"] if here else min(mean(peaks) if peaks else above[0]["peak_bytes"], SEEN_UP_TO * cap)
    shares = needs.get(rung.index, {Phase.TRAIN: 1.0})
    if here[0]["verdict"] == "fits" if here else peaks and peak <= cap:
        return _fits(rung, {phase: peak / cap * share / max(shares.values()) for phase, share in shares.items()})
    phase = (here or above or [{"phase": max(shares, key=lambda phase: shares[phase])}])[0]["phase"]
    trained = min(1.0, shares[Phase.TRAIN] / shares[phase]) if phase == Phase.VALIDATE and phase in shares else None
    return _fails(rung, {**({Phase.TRAIN: trained} if trained else {}), phase: peak / cap})


def foretold_needs() -> Mapping[str, Mapping[int, Mapping[str, float]]]:
    told: Mapping[str, Mapping[str, Mapping[str, float]]] = json.loads(NEEDS.read_text(encoding="utf-8"))
    return {ask: {int(at): phases for at, phases in rungs.items()} for ask, rungs in told.items()}


def _fits(rung: Rung, by_phase: Mapping[str, float]) -> Tried:
    return Tried(rung=rung, verdict=Verdict(kind=Kind.FITS, phase=Phase.DONE, why=""), need=max(by_phase.values()), by_phase=by_phase)


def _fails(rung: Rung, by_phase: Mapping[str, float]) -> Tried:
    """In the last of these phases."""
    verdict = Verdict(kind=Kind.OUT_OF_MEMORY, phase=list(by_phase)[-1], why="")
    return Tried(rung=rung, verdict=verdict, need=max(by_phase.values()), by_phase=by_phase)


def table(found: Sequence[Replayed]) -> str:
    """Trials, by how long the walk is."""
    lines = ["| walks of | launches | trials: walk | now |", "|---|---|---|---|"]
    for name, lengths in LENGTHS.items():
        mine = [one for one in found if one.walk[1] in lengths]
        lines.append(f"| {name} | {len(mine)} | {sum(one.walk[1] for one in mine)} | {sum(one.now[1] for one in mine)} |")
    same = sum(one.walk[0] == one.now[0] for one in found)
    return "\n".join([*lines, "", f"The walk's rung in {same} of {len(found)}."])


if __name__ == "__main__":
    print(table(list(launches(read(DATA)))))
