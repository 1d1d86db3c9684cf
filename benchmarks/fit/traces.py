"""Plays searches on foreseen needs, without a trial: how many they make where traces are made early, late or never (decision 015).

python -m benchmarks.fit.traces                    the tables, from results/fit_needs.json
python -m benchmarks.fit.traces --folder DIR       first has the needs foreseen anew, in a folder where the asks' data has been made

What a rung needs is what its trace foretells; what the search is told of it is off by up to 5 %. A trace is there one trial after it was
begun, as on a machine where it takes as long as a trial. Scripts can't be traced and are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.common.rows import ROOT
from benchmarks.fit.cases import ASKS, DEEP, DEEP_PARTS, PARTS
from benchmarks.fit.least import ladder_of
from launcher.ladder import extrapolation
from launcher.ladder.extrapolation import Measured
from launcher.ladder.rungs import Ladder, Rung
from launcher.ladder.search import Policy, Tried, Try, next_move, seen_in
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.report import Phase

NEEDS = ROOT / "benchmarks" / "results" / "fit_needs.json"
"""Ask -> rung -> phase -> bytes."""
ERROR = 0.05
SEEN_UP_TO = 1.11
"""Parts of the cap: a failing trial may use the whole budget, of which the cap is 90 %."""
Needs = Mapping[int, Mapping[str, float]]
WAYS: Mapping[str, tuple[Policy, Callable[[Sequence[Tried]], bool]]] = {
    "walk": ("walk", lambda tried: False),
    "no trace": ("predicted", lambda tried: False),
    "after two failures": ("predicted", lambda tried: len(tried) > 2),
    "with the first trial": ("predicted", lambda tried: len(tried) > 0),
}
"""How a search is led, and whether its trace is there after these trials."""
LENGTHS = {"three or fewer": range(4), "four or five": range(4, 6), "six or more": range(6, 1000)}
"""Trials of the walk."""


def foresee(folder: Path) -> dict[str, dict[int, dict[str, int]]]:
    """What every rung of every ask that can be traced is foreseen to need on a CPU."""
    from launcher.adapter.registry import load_adapter
    from launcher.cli import suggestions
    from launcher.config import compose
    from launcher.forecast.forecaster import Forecaster

    os.chdir(folder)
    found: dict[str, dict[int, dict[str, int]]] = {}
    for ask, words in {**ASKS, **DEEP}.items():
        (draft,) = compose.drafts([*words, "device=cpu"], program="autofit ladder", advice=suggestions)
        assert draft.recipe is not None
        forecaster = Forecaster(load_adapter(draft.recipe.trainer.adapter)(draft.recipe), ladder_of(ask), None)
        forecaster.gather(forecaster.ladder.rungs)
        forecasts = {rung.index: forecaster.forecasts(rung) for rung in forecaster.ladder.rungs}
        if None not in forecasts.values():
            found[ask] = {
                at: {phase.value: one.middle_bytes for phase, one in phases.items()} for at, phases in forecasts.items() if phases
            }
    return found


def tried(rung: Rung, needs: Mapping[str, float]) -> Tried:
    """A trial of a rung that needs so much, as parts of the cap."""
    by_phase: dict[str, float] = {}
    for phase in (Phase.TRAIN, Phase.VALIDATE):
        if phase in needs:
            by_phase[phase] = min(needs[phase], SEEN_UP_TO)
            if needs[phase] > 1:
                verdict = Verdict(kind=Kind.OUT_OF_MEMORY, phase=phase, why="", source="measured")
                return Tried(rung=rung, verdict=verdict, need=max(by_phase.values()), by_phase=by_phase)
    return Tried(rung=rung, verdict=Verdict(kind=Kind.FITS, phase=Phase.DONE, why=""), need=max(by_phase.values()), by_phase=by_phase)


def played(
    ladder: Ladder, needs: Needs, way: tuple[Policy, Callable[[Sequence[Tried]], bool]], foretold: Mapping[int, float | None]
) -> list[Tried]:
    """A search to its end."""
    history: list[Tried] = []
    policy, there = way
    while isinstance(move := next_move(ladder, history, policy=policy, predicted=foretold if there(history) else None), Try):
        history.append(tried(move.rung, needs[move.rung.index]))
    return history


def first_launches(needs: Mapping[str, Needs]) -> str:
    """Trials of a launch that knows nothing yet, by how long its walk is."""
    noise, totals, cases = random.Random(1), {name: dict.fromkeys(WAYS, 0) for name in LENGTHS}, dict.fromkeys(LENGTHS, 0)
    for ask, part in _cases(needs):
        ladder, under = ladder_of(ask), _parts(needs[ask], part)
        foretold = {at: max(phases.values()) * (1 + noise.uniform(-ERROR, ERROR)) for at, phases in under.items()}
        trials = {name: len(played(ladder, under, way, foretold)) for name, way in WAYS.items()}
        length = next(name for name, lengths in LENGTHS.items() if trials["walk"] in lengths)
        cases[length] += 1
        totals[length] = {name: total + trials[name] for name, total in totals[length].items()}
    lines = [f"| trials of a first launch | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
    return "\n".join(lines + [f"| {cases[name]} walks of {name} | {' | '.join(map(str, totals[name].values()))} |" for name in LENGTHS])


def at_another_budget(needs: Mapping[str, Needs]) -> str:
    """Trials of a launch that knows what another one measured at another budget, with a kept trace and without."""
    noise, totals = random.Random(2), {name: [0, 0, 0] for name in ("five or fewer", "six or more")}
    for ask, known in needs.items():
        ladder, off = ladder_of(ask), {at: 1 + noise.uniform(-ERROR, ERROR) for at in known}
        for before in (*PARTS, *DEEP_PARTS):
            seen = seen_in(played(ladder, _parts(known, before), WAYS["no trace"], {}))
            for part in (*PARTS, *DEEP_PARTS):
                earlier = [_moved(one, before / part) for one in seen if one.fits or one.need * before >= part]
                if part != before and any(one.fits for one in earlier):
                    under = _parts(known, part)
                    traced = {at: max(phases.values()) * off[at] for at, phases in under.items()}
                    always: tuple[Policy, Callable[[Sequence[Tried]], bool]] = ("predicted", lambda tried: True)
                    foretold = [extrapolation.needs(ladder.rungs, earlier, given) for given in ({}, traced)]
                    walk = len(played(ladder, under, WAYS["walk"], {}))
                    total = totals["six or more" if walk >= 6 else "five or fewer"]
                    for at, count in enumerate((1, *(len(played(ladder, under, always, one)) for one in foretold))):
                        total[at] += count
    lines = ["| pairs of budgets | trials without a trace | with a kept one |", "|---|---|---|"]
    return "\n".join(lines + [f"| {pairs} walks of {name} | {without} | {kept} |" for name, (pairs, without, kept) in totals.items()])


def _cases(needs: Mapping[str, Needs]) -> Iterator[tuple[str, float]]:
    yield from ((ask, part) for part in PARTS for ask in ASKS if ask in needs)
    yield from ((ask, part) for part in DEEP_PARTS for ask in DEEP if ask in needs)


def _parts(needs: Needs, part: float) -> Needs:
    """As parts of a cap that is ``part`` of what rung 0 needs."""
    cap = part * max(needs[0].values())
    return {at: {phase: need / cap for phase, need in phases.items()} for at, phases in needs.items()}


def _moved(one: Measured, factor: float) -> Measured:
    """The same as a part of another cap."""
    return replace(one, need=one.need * factor, by_phase={phase: need * factor for phase, need in one.by_phase.items()})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the asks' data has been made")
    chosen = parser.parse_args()
    if chosen.folder is not None:
        NEEDS.write_text(json.dumps(foresee(chosen.folder)) + "\n", encoding="utf-8")
    needs = {ask: {int(at): phases for at, phases in found.items()} for ask, found in json.loads(NEEDS.read_text(encoding="utf-8")).items()}
    print(first_launches(needs), at_another_budget(needs), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
