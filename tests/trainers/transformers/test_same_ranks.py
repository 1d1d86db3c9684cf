"""Two ranks of the transformers trainer, run as twins over gloo: an update of smaller micro-batches, or on one rank, is the asked one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from launcher.config.schema import TrialRules
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.rungs import Rung
from launcher.ladder.same_training import PROVEN
from launcher.machine import ranks
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trial import proof
from launcher.trial.job import Job
from launcher.trial.proof import Proof
from tests.helpers.hf_data import recipe
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums

pytestmark = pytest.mark.slow


def job_of(data: Path, task: str, place: Path, *, args: dict[str, Any] | None = None, **more: Any) -> Job:
    """8 x 1 on each of two ranks."""
    on = {"kind": "cpu", "memory": 2**30, "cards": 2}
    asked = recipe(data, task, ask={"micro_batch": 8, **more.pop("ask", {})}, args={"max_steps": 4, **(args or {})}, device=on, **more)
    asked = asked.model_copy(update={"trial": TrialRules(proof_timeout_s=1200.0)})
    adapter = TransformersAdapter(asked)
    assert adapter.check() == []
    by_cards = {most: ranks.budget_of(2, "cpu", most=most, memory_bytes=2**30, headroom=0.1) for most in (1, 2)}
    return Job(adapter=adapter, ladder=ladder_of(adapter), budget=by_cards[2], by_cards=by_cards, folder=RunFolder.create(place, "test"))


def proven(job: Job, rung: Rung) -> Proof:
    """Where a pass ends with a smaller step, accelerate fills it up from the beginning, with other rows at another micro-batch."""
    found = proof.prove(job, rung)
    assert not found.refused and found.same.cure == {}, found
    assert found.same.gradient == found.same.steps == found.same.schedule == PROVEN, found
    assert found.same.samples == PROVEN or "at the end of each pass over the data" in found.same.samples, found
    return found


@pytest.mark.parametrize(("task", "args"), [("text", {}), ("text", {"packing": False}), ("speech", {})])
def test_an_update_of_two_ranks_is_the_asked_one(
    task: str, args: dict[str, object], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    job = job_of(request.getfixturevalue("spoken" if task == "speech" else "sums"), task, tmp_path, args=args)
    rung = next(rung for rung in job.ladder.rungs if rung.micro_batch == 2)
    assert (rung.accumulation, rung.world_size) == (4, 2)
    found = proven(job, rung)
    assert found.same.layouts == ("4 x 1 x 2 ranks", "1 x 4 x 2 ranks")


@pytest.mark.parametrize("args", [{}, {"packing": False}])
def test_fewer_ranks_step_by_the_same_samples(args: dict[str, object], sums: Path, tmp_path: Path) -> None:
    job = job_of(sums, "text", tmp_path, args=args, ladder={"order": ("cards",)})
    rung = next(rung for rung in job.ladder.rungs if rung.world_size == 1)
    assert (rung.micro_batch, rung.accumulation) == (8, 2)
    found = proven(job, rung)
    assert found.same.layouts == ("4 x 1 x 2 ranks", "1 x 8")


def test_an_update_of_two_ranks_that_share_the_model_is_the_asked_one(sums: Path, tmp_path: Path) -> None:
    job = job_of(sums, "text", tmp_path, ask={"sharding": "none"}, ladder={"order": ("micro_batch", "sharding")})
    rung = next(rung for rung in job.ladder.rungs if rung.micro_batch == 2 and rung.values["sharding"] == "fsdp2")
    assert proven(job, rung).same.layouts == ("4 x 1 x 2 ranks", "1 x 4 x 2 ranks")
