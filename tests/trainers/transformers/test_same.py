"""Recipes of the transformers trainer, really run as twins on the CPU: an update of several micro-batches is the large batch's."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from launcher.config.schema import TrialRules
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.same_training import PROVEN
from launcher.trainers.suite import cpu_budget
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trial import proof
from launcher.trial.job import Job
from tests.helpers.hf_data import recipe
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "args"), [("text", {}), ("text", {"packing": False}), ("speech", {}), ("speech", {"label_smoothing_factor": 0.1})]
)
def test_a_recipe_s_update_is_the_asked_one(task: str, args: dict[str, object], request: pytest.FixtureRequest, tmp_path: Path) -> None:
    data = request.getfixturevalue("spoken" if task == "speech" else "sums")
    asked = recipe(data, task, ask={"micro_batch": 8}, args={"max_steps": 4, **args})
    asked = asked.model_copy(update={"trial": TrialRules(proof_timeout_s=1200.0)})
    adapter = TransformersAdapter(asked)
    assert adapter.check() == []
    ladder = ladder_of(adapter)
    rung = next(rung for rung in ladder.rungs if rung.micro_batch == 2)
    found = proof.prove(Job(adapter=adapter, ladder=ladder, budget=cpu_budget(2**30), folder=RunFolder.create(tmp_path, "test")), rung)
    assert not found.refused and found.same.cure == {}, found
    assert found.same.gradient == found.same.steps == found.same.schedule == PROVEN, found
