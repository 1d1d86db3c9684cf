"""The data set that a plan has in the place of one that isn't here."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofit_launcher.machine import process
from autofit_launcher.trainers.ultralytics import checks, data
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from tests.helpers.yolo_recipe import make


@pytest.mark.parametrize("task", checks.TASKS)
def test_a_stand_in_is_a_whole_data_set_of_the_task(tmp_path: Path, task: str) -> None:
    recipe = make("none", ask={"model": "yolo11n.yaml", "micro_batch": 6}, trainer={"adapter": "ultralytics", "task": task})
    adapter = UltralyticsAdapter(recipe)
    made = adapter.stand_in(tmp_path / "data")
    assert made is not None and made.prepare is not None and made.data is not None
    assert process.output_of(made.prepare) == (0, "")
    facts, faults = data.inspect(made.data, task)
    assert facts is not None and not faults, faults
    assert (len(facts.train), len(facts.val)) == (6, 12)
    densest = Path(data.label_path(facts.train[0])).read_text().splitlines()
    assert len(densest) == 300
