"""A trainer that trains nothing, and launches of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from autofit_launcher.adapter.commands import Command, Inputs
from autofit_launcher.adapter.protocol import FIRST, RunStart
from autofit_launcher.common.report import Phase, PhaseUse, TrialReport
from autofit_launcher.common.sizes import MIB
from autofit_launcher.config import recipe
from autofit_launcher.config.schema import LadderRules, Recipe, RecoverRules, TrainerRules, TrialRules
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine import reuse
from autofit_launcher.engine.launch import Launch, Screen
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import Ladder, Rung, Wheel, build
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine.devices import Budget
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial
from tests.helpers.stand_in import StandIn

LADDER = build([Wheel(name="micro_batch", values=(8, 4, 2))], effective_batch=8)
NEED = {8: 900 * MIB, 4: 500 * MIB, 2: 300 * MIB}


class Few(StandIn):
    """A trainer that trains nothing; ``fault`` is what its run ends with."""

    name: ClassVar[str] = "few"

    def __init__(self, recipe: Recipe, *, data: Sequence[Path] = (), code: Sequence[Path] = (), fault: str = "") -> None:
        self.recipe, self.data, self.code, self.fault = recipe, data, code, fault

    def inputs(self, ladder: Ladder) -> Inputs:
        return Inputs(data=self.data, code=self.code)

    def command(self, rung: Rung, budget: Budget, *, folder: Path, start: RunStart = FIRST) -> Command:
        return Command(argv=(sys.executable, "-c", f"{self.fault}"))


class Heard(Screen):
    """Keeps the lines that are said of launches, and the names of what else is shown; ``hears`` is called at each of these."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: list[str] = []
        self.hears: Callable[[str], object] = lambda name: None

    def say(self, words: str, style: str = "yellow") -> None:
        self.lines.append(words)

    def _shown(self, name: str) -> None:
        self.names.append(name)
        self.hears(name)

    def trial_ended(self, trial: Trial) -> None:
        self._shown("trial_ended")

    def fitted(self, fit: Launch) -> None:
        self._shown("fitted")

    def launched(self, command: str) -> None:
        self._shown("launched")

    def finished(self, fit: Launch) -> None:
        self._shown("finished")


class Launches:
    """Launches of one training; counts the trials that are made."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.tried: list[int] = []
        self.heard = Heard()
        self.folder = place
        """The folder of the last launch."""
        self.data = place / "data"
        self.data.mkdir()
        (self.data / "a.jpg").write_bytes(b"image")
        self.says: dict[str, Any] = {}
        self.budget = replace(cpu_budget(), emulated=False, budget_bytes=700 * MIB, cap_bytes=630 * MIB, ceiling_bytes=1050 * MIB)
        self.fault = ""
        self.code = place / "code"
        self.code.mkdir()
        (self.code / "train.py").write_text("train()")

    def job(self) -> Job:
        args: dict[str, Any] = {"epochs": 3, **self.says}
        fresh = bool(args.pop("fresh", False))
        mine = Recipe(
            name="few",
            ask={"micro_batch": 8},
            trainer=TrainerRules(adapter="few", args=args),
            ladder=LadderRules(order=("micro_batch",)),
            recover=RecoverRules(restarts=0),
            trial=TrialRules(fresh=fresh),
        )
        adapter: Any = Few(mine, data=[self.data], code=[self.code], fault=self.fault)
        folder = RunFolder.create(self.place / "runs", "few")
        folder.replace(folder.recipe, recipe.as_yaml(mine))
        self.folder = folder.path
        return Job(adapter=adapter, ladder=LADDER, budget=self.budget, folder=folder)

    def trial(self, job: Job, rung: Rung, **_: Any) -> Trial:
        self.tried.append(rung.micro_batch)
        need, cap = NEED[rung.micro_batch], job.budget.cap_bytes
        kind, source = (Kind.FITS, None) if need <= cap else (Kind.OUT_OF_MEMORY, "measured")
        verdict = Verdict(kind=kind, phase="done", why="", source=source, peak_bytes=need)  # type: ignore[arg-type]
        report = TrialReport(
            phase="done", uses=(PhaseUse(phase=Phase.TRAIN, seconds=1.0, reserved_bytes=need),), cap_bytes=cap, base_bytes=7,
        )  # fmt: skip
        place = job.folder.trial(rung.index)
        report.write(place / "report.json")
        return Trial(rung=rung, verdict=verdict, report=report, seconds=1.0, folder=place)

    def fit(self) -> Launch:
        self.tried.clear()
        return engine.begin(self.job(), self.heard)

    def train(self) -> Launch:
        self.tried.clear()
        with (self.place / "out").open("wb") as out:
            return engine.begin(self.job(), self.heard, show=(out, out))

    def looks(self) -> reuse.Reuse:
        return reuse.look_up(self.job())

    def why(self, fit: Launch) -> str:
        return fit.reuse.record.why
