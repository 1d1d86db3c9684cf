"""An adapter in whose place a test says only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from autofit_launcher.adapter import FIRST, Adapter, Budget, Command, Fault, Rung, RunStart, TrialPlan, WheelSpec
from autofit_launcher.config.schema import Recipe, RecoverRules
from autofit_launcher.full_run import run
from autofit_launcher.history.run_folder import RunFolder


class StandIn(Adapter):
    """Trains nothing."""

    name: ClassVar[str] = "stand-in"
    wheels: ClassVar[Mapping[str, WheelSpec]] = {"micro_batch": WheelSpec(type=int, help="samples")}

    def check(self) -> list[Fault]:
        return []

    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        return TrialPlan(module="tests.none", payload={})

    def command(self, rung: Rung, budget: Budget, *, folder: Path, start: RunStart = FIRST) -> Command:
        raise NotImplementedError

    def results(self, *, folder: Path) -> Mapping[str, Any]:
        return {}


def watched(place: Path, **usage: Any) -> tuple[run.RunWatch, Any]:
    """What watches a run in that folder, which uses so much memory, and the run's process."""
    recipe, folder = SimpleNamespace(recover=RecoverRules()), RunFolder(place)
    job: Any = SimpleNamespace(adapter=StandIn(cast(Recipe, None)), recipe=recipe, folder=folder, say=lambda *words: None)
    child: Any = SimpleNamespace(awake=SimpleNamespace(seconds=0.0), pid=0, process=SimpleNamespace(poll=lambda: 0))
    used: Any = SimpleNamespace(**{"now_bytes": 0, "lately": lambda: 0, "peak_bytes": 0, **usage})
    return run.RunWatch(child, job, cast(Rung, None), used, files=folder.attempt(1)), child
