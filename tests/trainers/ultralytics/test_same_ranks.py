"""Two ranks of Ultralytics, really run as twins over gloo: what of an update hangs on the micro-batch, or on the number of ranks?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("ultralytics")

from launcher.adapter.commands import Command
from launcher.config.schema import TrialRules
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.rungs import Rung
from launcher.ladder.same_training import PROVEN
from launcher.machine import ranks
from launcher.machine.devices import Budget
from launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from launcher.trial import proof
from launcher.trial.job import Job
from launcher.trial.proof import Proof
from tests.helpers.places import ROOT
from tests.helpers.shapes import ShapesData
from tests.helpers.yolo_recipe import make

OVER_GLOO = ROOT / "tests" / "helpers" / "over_gloo.py"


class OnTheCpu(UltralyticsAdapter):
    """Its runs of several ranks know cards alone; nothing else of a twin is another."""

    def twin(self, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        command = super().twin(rung, budget, folder=folder)
        if rung.world_size == 1:
            return command
        assert command.argv[0] == sys.executable
        path = {"PYTHONPATH": os.pathsep.join([command.env["PYTHONPATH"], str(ROOT)])}
        return replace(command, argv=(sys.executable, str(OVER_GLOO), *command.argv[1:]), env={**command.env, **path})


def proven(data: ShapesData, place: Path, order: str, pick: Callable[[Rung], bool]) -> Proof:
    """What becomes of a rung of a training of 16 images on each of two ranks."""
    asked = {"micro_batch": 16, "accumulation": 1, "image_size": 64, "model": "yolov8n.yaml"}
    on = {"kind": "cpu", "memory": 2**30, "cards": 2}
    recipe = make(data.yaml, ask=asked, device=on, ladder={"order": (order,)})
    adapter = OnTheCpu(recipe.model_copy(update={"trial": TrialRules(proof_timeout_s=1200.0)}))
    budget = ranks.budget_of(2, "cpu", memory_bytes=2**30, headroom=0.1)
    job = Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget, folder=RunFolder.create(place, "test"))
    rung = next(rung for rung in job.ladder.rungs if pick(rung))
    assert proof.needed(job, rung)
    return proof.prove(job, rung)


@pytest.mark.slow
def test_an_update_of_two_ranks_differs_by_what_ultralytics_own_accumulation_makes_differ_alone(
    shapes: Callable[..., ShapesData], tmp_path: Path
) -> None:
    data = shapes("detect", train=24, val=4, size=64, densest=6)
    found = proven(data, tmp_path, "micro_batch", lambda rung: rung.accumulation > 1)
    assert not found.refused, found
    assert found.same.gradient.startswith("differs by") and "own targets" in found.same.gradient, found
    assert "in batch norm" in found.same.gradient and "all else is the same" in found.same.gradient, found
    assert [found.same.steps, found.same.schedule, found.same.samples] == [PROVEN] * 3, found
    assert found.same.layouts == ("4 x 1 x 2 ranks", "1 x 4 x 2 ranks")
