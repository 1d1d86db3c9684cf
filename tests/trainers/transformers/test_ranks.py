"""Two ranks of the transformers trainer over gloo: one command from first trial to the end of a training, and a rank that runs out."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.verdict import Kind
from launcher.machine import ranks
from launcher.shared.report import Phase, TrialReport
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trial import trial
from launcher.trial.job import Job
from tests.conftest import failed_above
from tests.helpers.command_line import answer, autofit
from tests.helpers.hf_data import recipe
from tests.helpers.hf_data import sums as sums

pytestmark = pytest.mark.slow
MIB = 2**20


def two_ranks(data: Path, folder: Path, *, memory: int = 400 * MIB) -> Job:
    asked = recipe(data, "text", ask={"micro_batch": 4, "accumulation": 2}, device={"kind": "cpu", "memory": memory, "cards": 2})
    adapter = TransformersAdapter(asked)
    assert adapter.check() == []
    budget = ranks.budget_of(2, "cpu", memory_bytes=memory, headroom=0.1)
    return Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget, folder=RunFolder.create(folder, "case"))


def test_each_rank_reports_and_the_batch_is_that_of_both(sums: Path, tmp_path: Path) -> None:
    job = two_ranks(sums, tmp_path)
    assert job.ladder.effective_batch == 16
    tried = trial.run(job, job.ladder.asked)
    assert tried.verdict.fits, tried.verdict
    reports = [TrialReport.read(tried.folder / "ranks" / rank / "report.json") for rank in ("0", "1")]
    for one in reports:
        assert one is not None and one.phase == Phase.DONE
        assert (one.observed["world_size"], one.observed["backend"], one.observed["micro_batch"]) == (2, "gloo", 4)
        assert one.facts["effective_batch"] == 16 and one.cap_bytes == 360 * MIB
    assert tried.verdict.peak_bytes == max(one.peak_bytes for one in reports if one is not None)


def test_the_rank_with_less_memory_is_the_verdict_within_seconds(sums: Path, tmp_path: Path) -> None:
    job = two_ranks(sums, tmp_path)
    lower = replace(job.budget.ranks[1], cap_bytes=50 * MIB, ceiling_bytes=50 * MIB)
    job = replace(job, budget=replace(job.budget, ranks=(job.budget.ranks[0], lower)))
    tried = trial.run(job, job.ladder.asked)
    took = time.time() - (tried.folder / "ranks" / "1" / "report.json").stat().st_mtime
    assert tried.verdict.kind is Kind.OUT_OF_MEMORY and tried.verdict.why.startswith("rank 1 of 2: out of memory")
    assert took < 10, "5 s on an idle machine"


def test_two_ranks_go_down_a_ladder_and_train_to_the_end_within_their_trial(tmp_path: Path) -> None:
    words = ("trainer.args.max_steps=4", "trainer.args.eval_steps=2", "device.cards=2")
    done = autofit("train", "recipe=llm_sft_demo", *words, "--json", cwd=tmp_path, timeout=900)
    assert done.returncode == 0, done.stderr
    record = answer(done)
    assert failed_above(record) == {"out_of_memory"}
    assert (record["effective_batch"], record["rung"]["micro_batch"] * record["accumulation"]) == (32, 16)
    assert record["results"]["steps"] == 4 and "eval_token_accuracy" in record["results"]["metrics"]
    assert "torch.distributed.run --nproc_per_node 2" in record["command"]
    memory = record["memory"]
    assert 0.8 < memory["run_peak_bytes"] / memory["trial_peak_bytes"] < 1.1
    assert [one["budget_bytes"] for one in record["device"]["ranks"]] == [192 * MIB] * 2
