"""Two ranks of the transformers trainer over gloo: one command from first trial to the end of a training, and a rank that runs out."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.verdict import Kind
from launcher.machine import ranks
from launcher.run import start
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


def two_ranks(data: Path, folder: Path, *, memory: int = 400 * MIB, accumulation: int = 2, **more: Any) -> Job:
    asked = recipe(
        data, "text", ask={"micro_batch": 4, "accumulation": accumulation}, device={"kind": "cpu", "memory": memory, "cards": 2}, **more
    )
    adapter = TransformersAdapter(asked)
    assert adapter.check() == []
    by_cards = {most: ranks.budget_of(2, "cpu", most=most, memory_bytes=memory, headroom=0.1) for most in (1, 2)}
    folder_of = RunFolder.create(folder, "case")
    return Job(adapter=adapter, ladder=ladder_of(adapter), budget=by_cards[2], by_cards=by_cards, folder=folder_of)


@pytest.fixture(scope="module")
def larger(sums: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same data with a model of some 57 MiB, which a rank's gradients take once more where two exchange them."""
    from transformers import LlamaConfig, LlamaForCausalLM

    data = tmp_path_factory.mktemp("larger") / "data"
    shutil.copytree(sums, data)
    small = LlamaConfig.from_pretrained(data / "model")
    small.hidden_size, small.intermediate_size, small.num_hidden_layers, small.head_dim = 512, 1024, 5, 128
    LlamaForCausalLM(small).save_pretrained(data / "model")
    return data


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
    gone_on = [TrialReport.read(tried.folder / "resumed" / "ranks" / rank / "report.json") for rank in ("0", "1")]
    for one in gone_on:
        assert one is not None and one.phase == Phase.DONE and (one.observed["world_size"], one.optimizer_steps) == (2, 3)
        assert {"resume", "validate", "save", "train_again", "finish"} <= {use.phase for use in one.uses}
    assert [use.phase for use in tried.report.uses][-1] == Phase.RESUME
    assert tried.verdict.peak_bytes == max(one.peak_bytes for one in (*reports, *gone_on) if one is not None)


def test_the_rank_with_less_memory_is_the_verdict_within_seconds(sums: Path, tmp_path: Path) -> None:
    job = two_ranks(sums, tmp_path)
    lower = replace(job.budget.ranks[1], cap_bytes=50 * MIB, ceiling_bytes=50 * MIB)
    job = replace(job, budget=replace(job.budget, ranks=(job.budget.ranks[0], lower)), by_cards={})
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


def test_what_two_cards_have_no_room_for_is_trained_on_one_with_the_same_batch(larger: Path, tmp_path: Path) -> None:
    job = two_ranks(larger, tmp_path, memory=2048 * MIB, ladder={"order": ("cards",)})
    both, one = (trial.run(job, rung) for rung in job.ladder.rungs)
    assert both.verdict.fits and one.verdict.fits, (both.verdict, one.verdict)
    assert "world_size" not in one.report.observed and one.report.facts["effective_batch"] == both.report.facts["effective_batch"] == 16
    need = (both.verdict.peak_bytes, one.verdict.peak_bytes)
    assert need[0] - need[1] > 30 * MIB, "the gradients that are exchanged"
    words = ("recipe=llm_sft_demo", f"data={larger}", f"ask.model={larger}/model", "device.cards=2", "ladder.order=[cards]")
    words += ("ask.micro_batch=4", "ask.accumulation=2", "ask.sequence_length=128", "ask.val_micro_batch=4", "ask.val_keeps=tokens")
    words += ("trainer.args.max_steps=4", "trainer.args.eval_steps=2", f"device.memory={int(sum(need) / 2 / 0.9) // MIB}MiB")
    words += ("trial.proof_timeout_s=1200",)
    done = autofit("train", *words, "--json", cwd=tmp_path, timeout=900)
    assert done.returncode == 0, done.stderr
    record = answer(done)
    assert failed_above(record) == {"out_of_memory"}
    assert (record["rung"]["cards"], record["accumulation"], record["effective_batch"]) == (1, 4, 16)
    assert record["results"]["steps"] == 4 and "torch.distributed.run" not in record["command"]
    same = json.loads((Path(record["run_dir"]) / "record.json").read_text(encoding="utf-8"))["same_training"]
    assert (same["gradient"], same["schedule"], same["layouts"]) == ("proven", "proven", ["4 x 2 x 2 ranks", "1 x 16"]), same


@pytest.mark.timeout(1500)
def test_fewer_cards_and_sharing_are_walked_in_one_ladder(larger: Path, tmp_path: Path) -> None:
    """With whole weights neither four ranks have room nor two; four that share them have, and train the same batch."""
    job = two_ranks(larger, tmp_path, memory=2048 * MIB, accumulation=1)
    whole = trial.run(job, job.ladder.asked)
    assert whole.verdict.fits, whole.verdict
    room = int((whole.verdict.peak_bytes - 40 * MIB) / 0.9)  # four that share hold a quarter of weights, gradients and states
    words = ("recipe=llm_sft_demo", f"data={larger}", f"ask.model={larger}/model", "device.cards=4", "ladder.order=[cards,sharding]")
    words += ("ask.micro_batch=4", "ask.sharding=none", "ask.sequence_length=128", "ask.val_micro_batch=4", "ask.val_keeps=tokens")
    words += ("ladder.wheels.cards.floor=2", "ladder.search=walk", "trainer.args.max_steps=4", "trainer.args.eval_steps=2")
    done = autofit("train", *words, f"device.memory={room // MIB}MiB", "--json", cwd=tmp_path, timeout=1200)
    assert done.returncode == 0, done.stderr
    record = answer(done)
    tried = [(one["rung"]["cards"], one["rung"]["sharding"], one["accumulation"], one["verdict"]) for one in record["trials"]]
    assert tried == [(4, "none", 1, "out_of_memory"), (2, "none", 2, "out_of_memory"), (4, "fsdp2", 1, "fits")]
    assert {one["effective_batch"] for one in record["trials"]} == {16} and record["results"]["steps"] == 4
    assert "--nproc_per_node 4" in record["command"] and "--fsdp" in record["command"]
    assert 0.8 < record["memory"]["run_peak_bytes"] / record["memory"]["trial_peak_bytes"] < 1.1


def test_a_checkpoint_of_two_cards_goes_on_on_one(sums: Path, tmp_path: Path) -> None:
    args = {"max_steps": 4, "save_steps": 2, "output_dir": str(tmp_path / "out")}
    job = two_ranks(sums, tmp_path, ladder={"order": ("cards",)})
    rules = job.recipe.trainer.model_copy(update={"args": {**job.recipe.trainer.args, **args}})
    job = replace(job, adapter=TransformersAdapter(job.recipe.model_copy(update={"trainer": rules})))
    both, one = job.ladder.rungs
    command = start.native_command(job, both)
    assert "--nproc_per_node" in command.words
    subprocess.run(["bash", "-c", command.shell()], check=True, capture_output=True, timeout=300)
    halfway = next(one for one in job.adapter.checkpoints(folder=job.folder.path) if one.done == 2)
    assert "cards" in (job.adapter.keeps() or ())
    resumed = job.adapter.resume(one, halfway, job.on(one).budget, folder=job.folder.path, attempt=2)
    assert resumed.ranks in (None, 1)
    gone_on = subprocess.run(["bash", "-c", resumed.shell()], check=True, capture_output=True, text=True, timeout=300)
    assert job.adapter.results(folder=job.folder.path)["steps"] == 4, gone_on.stderr
