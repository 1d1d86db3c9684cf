"""An adapter in whose place a test says only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from autofit_launcher.adapter import FIRST, Adapter, Budget, Command, Fault, Rung, RunStart, TrialPlan, WheelSpec


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
