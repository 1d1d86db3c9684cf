"""Trainings by Ultralytics, really run as twins on the CPU: what of an update hangs on the micro-batch?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.commands import Command
from autofit_launcher.config.schema import TrialRules
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.same_training import PROVEN
from autofit_launcher.ladder.twins import Finding, FindingKind
from autofit_launcher.machine import ranks
from autofit_launcher.machine.devices import Budget
from autofit_launcher.trainers.suite import cpu_budget, snapshot
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from autofit_launcher.trial import proof
from autofit_launcher.trial.proof import Proof
from tests.helpers import script
from tests.helpers.places import ROOT
from tests.helpers.shapes import ShapesData
from tests.helpers.yolo_recipe import make


class OnTheCpu(UltralyticsAdapter):
    """Its runs of several ranks know cards alone; nothing else of a twin is another."""

    def twin(self, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        command = super().twin(rung, budget, folder=folder)
        path = {"PYTHONPATH": os.pathsep.join([command.env["PYTHONPATH"], str(ROOT)])}
        over_gloo = str(ROOT / "tests" / "helpers" / "over_gloo.py")
        return replace(command, argv=(sys.executable, over_gloo, *command.argv[1:]), env={**command.env, **path})


def proven(data: ShapesData, place: Path, *, model: str, cards: int) -> Proof:
    """What becomes of rung 2, a quarter of the asked micro-batch."""
    asked = {"micro_batch": 16, "accumulation": 1, "image_size": 64, "model": model}
    device = {"kind": "cpu", "memory": 2**30, **({"cards": cards} if cards > 1 else {})}
    recipe = make(data.yaml, ask=asked, device=device).model_copy(update={"trial": TrialRules(proof_timeout_s=1200.0)})
    adapter = (OnTheCpu if cards > 1 else UltralyticsAdapter)(recipe)
    budget = ranks.budget_of(cards, "cpu", memory_bytes=2**30, headroom=0.1) if cards > 1 else cpu_budget(2**30)
    job = script.job(adapter, place, budget)
    rung = next(rung for rung in job.ladder.rungs if rung.micro_batch == 4)
    assert proof.needed(job, rung) and {"amp=False", "epochs=2", "mosaic=0.0"} < set(
        adapter.twin(rung, budget, folder=place / "1/first").argv
    )
    return proof.prove(job, rung)


@pytest.mark.parametrize(("task", "model", "cards"), [
    ("detect", "yolov8n.yaml", 1),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("detect", "yolov8n.yaml", 2), ("detect", "yolo11n.yaml", 1), ("detect", "yolo26n.yaml", 1), ("segment", "yolov8n-seg.yaml", 1),
        ("pose", "yolov8n-pose.yaml", 1), ("obb", "yolov8n-obb.yaml", 1),
    )),
])  # fmt: skip
def test_an_update_differs_by_what_ultralytics_own_accumulation_makes_differ_alone(
    shapes: Callable[..., ShapesData], tmp_path: Path, task: str, model: str, cards: int
) -> None:
    data = shapes(task, train=24, val=4, size=64, densest=6)
    before = snapshot(data.folder)
    found = proven(data, tmp_path, model=model, cards=cards)
    assert not found.refused, found
    assert found.same.gradient.startswith("differs by") and "own targets" in found.same.gradient, found
    assert "in batch norm" in found.same.gradient and "all else is the same" in found.same.gradient, found
    assert [found.same.steps, found.same.schedule, found.same.samples] == [PROVEN] * 3, found
    assert snapshot(data.folder) == before
    logs = [log.read_text() for log in tmp_path.rglob("stderr.log")]
    assert logs and (cards > 1 or not any("started anew" in log for log in logs)), "its imports are made once"


@pytest.mark.parametrize(
    ("finding", "doubted"),
    [
        (Finding(kind=FindingKind.DIFFERENT, why="0.3 apart"), True),  # no time was left to see why
        (Finding(kind=FindingKind.FACTOR, why="a quarter", power=-1), True),  # four images of which no target counts are divided by one
        (Finding(kind=FindingKind.FACTOR, why="four times", power=1), False),
        (Finding(kind=FindingKind.DIFFERENT, why="another learning rate", of="schedule"), False),
        (Finding(kind=FindingKind.DIFFERENT, why="other samples", of="samples"), False),
        (Finding(kind=FindingKind.WEIGHTED, why="weights of images"), False),  # told by its figure
    ],
)
def test_only_what_weights_of_images_can_not_make_differ_is_refused(tmp_path: Path, finding: Finding, doubted: bool) -> None:
    adapter = UltralyticsAdapter(make(tmp_path / "data.yaml"))
    known = adapter.corrected(finding)
    assert (finding.why in known.doubted) is doubted
    assert bool(known.told) is (finding.kind is FindingKind.WEIGHTED)


def test_data_with_too_few_images_that_show_something_is_not_made_smaller(shapes: Callable[..., ShapesData]) -> None:
    data = shapes("detect", train=4, val=2, size=64, densest=2)
    adapter = UltralyticsAdapter(make(data.yaml, ask={"image_size": 64}))
    ladder = ladder_of(adapter)
    assert adapter.small(ladder.rungs[1], ladder.asked) == []
