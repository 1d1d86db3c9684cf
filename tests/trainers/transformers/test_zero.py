"""DeepSpeed's ZeRO as values of ``sharding``: two gloo ranks that really share by it, where it is installed; what is refused without it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from launcher.config.schema import Recipe, TrialRules, Value
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.same_training import PROVEN
from launcher.ladder.verdict import Kind
from launcher.machine import ranks
from launcher.shared.report import Phase, TrialReport
from launcher.shared.sizes import parse_size
from launcher.trainers.suite import cpu_budget
from launcher.trainers.transformers import resuming, sharding
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trainers.transformers.native import hf_run
from launcher.trial import proof, trial
from launcher.trial.job import Job
from tests.conftest import failed_above
from tests.helpers.command_line import answer, autofit
from tests.helpers.hf_data import recipe as make
from tests.helpers.hf_data import sums as sums
from tests.helpers.places import ROOT

MIB = 2**20
ORDER = ("micro_batch", "sharding", "checkpointing")


def shared(data: Path, value: Value = "zero2", *, cards: Any = 2, kind: str = "cpu", **more: Any) -> Recipe:
    ladder = {"order": more.pop("order", ORDER), "wheels": more.pop("wheels", {})}
    ask = {"sharding": value, "val_micro_batch": 4, **more.pop("ask", {})}
    return make(data, "text", ask=ask, ladder=ladder, device={"kind": kind, "cards": cards}, **more)


def found(recipe: Recipe) -> str:
    return "\n".join(str(fault) for fault in TransformersAdapter(recipe).check())


def values(recipe: Recipe) -> list[Value]:
    return list(dict.fromkeys(rung.values["sharding"] for rung in ladder_of(TransformersAdapter(recipe)).rungs))


# ----------------------------------------------------------------------------------------------------------------------
# Words


@pytest.mark.skipif(sharding.deepspeed_is_there(), reason="deepspeed is installed")
def test_without_the_package_it_is_refused_before_anything_starts(sums: Path) -> None:
    said = found(shared(sums))
    assert "ask.sharding: zero2: it needs the package deepspeed" in said and "take fsdp2 or fsdp2_reshard" in said
    named = shared(sums, "none", wheels={"sharding": {"values": ("zero3",)}})
    assert "ladder.wheels.sharding.values: zero3: it needs the package deepspeed" in found(named)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run."""
    monkeypatch.setattr(sharding, "deepspeed_is_there", lambda: True)


def test_a_rung_hands_trainer_a_configuration_that_contradicts_nothing(there: None, sums: Path) -> None:
    adapter = TransformersAdapter(shared(sums))
    rungs = {rung.values["sharding"]: adapter._arguments(rung, on_cpu=False) for rung in ladder_of(adapter).rungs}
    for stage, args in ((2, rungs["zero2"]), (3, rungs["zero3"])):
        said = args["deepspeed"]
        assert said["zero_optimization"]["stage"] == stage and "fsdp" not in args and sharding.environment(args, cpu=False) == {}
        numbers = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size", "gradient_clipping")
        assert {said[one] for one in numbers} == {said["bf16"]["enabled"]} == {"auto"}
    assert rungs["zero3"]["deepspeed"]["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"], "else nobody loads the model"
    command = adapter.full_run(ladder_of(adapter).asked, cpu_budget(), folder=Path("/runs/one"))
    assert json.loads(command.argv[command.argv.index("--deepspeed") + 1]) == rungs["zero2"]["deepspeed"]
    assert command.env["DS_ACCELERATOR"] == "cpu" and "--use_cpu" not in command.argv


def test_only_who_names_it_has_it_on_a_ladder(there: None, sums: Path) -> None:
    assert values(shared(sums, "zero2")) == ["zero2", "zero3"] and values(shared(sums, "zero3")) == ["zero3"]
    assert values(shared(sums, "none")) == ["none", "fsdp2", "fsdp2_reshard"]
    assert values(shared(sums, "none", wheels={"sharding": {"values": ("zero2", "fsdp2")}})) == ["none", "zero2", "fsdp2"]
    assert found(shared(sums, "zero2")) == found(shared(sums, "zero3")) == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"cards": None}, "nobody to share with"),
        ({"value": "zero1"}, "ZeRO's stages 2 and 3"),
        ({"value": "zero3_offload"}, "fsdp2_offload lets a card's part lie in the host's memory"),
        ({"ask": {"optimizer": "adafactor"}}, "adafactor looks at whole weights"),
        ({"ask": {"optimizer": "adamw_torch"}, "order": ("micro_batch", "optimizer"), "wheels": {"optimizer": {"values": ("adafactor",)}}},
         "adafactor looks at whole weights"),
        ({"order": ("cards", *ORDER), "wheels": {"cards": {"floor": 2}}}, "load on as many cards alone"),
        ({"args": {"dtype": "bfloat16"}}, "Leave out trainer.args.dtype"),
        ({"args": {"load_best_model_at_end": True, "eval_strategy": "steps"}}, "a whole checkpoint again"),
        ({"args": {"deepspeed": "ds.json"}}, "set ask.sharding=zero2 or zero3"),
        ({"ask": {"precision": "bf16"}}, "without that precision"),
        ({"ask": {"precision": "fp16"}, "kind": "cuda"}, "sums overflow"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_refused(there: None, more: Mapping[str, Any], said: str, sums: Path) -> None:
    assert said in found(shared(sums, **more))


def test_a_checkpoint_of_it_loads_at_its_stage_and_in_as_many_ranks(there: None, sums: Path, tmp_path: Path) -> None:
    args: dict[str, Any] = {"args": {"resume_from_checkpoint": str(tmp_path)}}
    (tmp_path / "trainer_state.json").write_text("{}", encoding="utf-8")
    assert "weights that were not shared" in found(shared(sums, "zero2", **args))
    parts = tmp_path / "global_step2"
    parts.mkdir()
    for rank in (0, 1):
        (parts / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").touch()
    assert hf_run.shared_by(tmp_path) == "ZeRO 2 of 2 ranks"
    assert found(shared(sums, "zero2", **args)) == "" and values(shared(sums, "zero2", **args)) == ["zero2"]
    assert "Set ask.sharding to zero2" in found(shared(sums, "none", **args))
    assert "Set ask.sharding to zero2" in found(shared(sums, "fsdp2", **args))
    assert "name as many cards" in found(shared(sums, "zero2", cards=4, **args))
    (parts / "zero_pp_rank_0_mp_rank_00_model_states.pt").touch()
    assert hf_run.shared_by(tmp_path) == "ZeRO 3 of 2 ranks" and found(shared(sums, "zero3", **args)) == ""
    assert "Set ask.sharding to zero3" in found(shared(sums, "zero2", **args))
    with pytest.raises(hf_run.Refused, match="saved with ZeRO 3 of 2 ranks, and this run trains with nothing shared"):
        hf_run.checked_resume(SimpleNamespace(resume_from_checkpoint=str(tmp_path), fsdp=None, deepspeed=None))
    saved_as = TransformersAdapter(shared(sums)).saved_as
    assert saved_as("sharding", "zero2") not in (saved_as("sharding", "zero3"), saved_as("sharding", "fsdp2"), saved_as("sharding", "none"))


def test_a_checkpoint_that_lacks_a_ranks_part_is_passed_over(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = tmp_path / "checkpoint-2"
    (folder / "global_step2").mkdir(parents=True)
    state = {"global_step": 2, "max_steps": 4, "log_history": []}
    (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    save_file({"weight": torch.ones(4)}, folder / "model.safetensors")
    for name in ("scheduler.pt", "rng_state_0.pth", "rng_state_1.pth", "global_step2/zero_pp_rank_0_mp_rank_00_optim_states.pt"):
        torch.save({"states": torch.ones(4)}, folder / name)
    assert resuming.checkpoints(tmp_path) == []
    torch.save({"states": torch.ones(4)}, folder / "global_step2" / "zero_pp_rank_1_mp_rank_00_optim_states.pt")
    assert [one.done for one in resuming.checkpoints(tmp_path)] == [2]
    (folder / "global_step2" / "zero_pp_rank_1_mp_rank_00_optim_states.pt").write_bytes(b"")
    assert resuming.checkpoints(tmp_path) == []


# ----------------------------------------------------------------------------------------------------------------------
# Really shared, over gloo


def job(asked: Recipe, folder: Path, *, adapter: type[TransformersAdapter] = TransformersAdapter) -> Job:
    pytest.importorskip("deepspeed", reason="deepspeed is not installed")
    asked = asked.model_copy(update={"trial": TrialRules(proof_timeout_s=1200.0)})
    made = adapter(asked)
    assert made.check() == []
    budget = ranks.budget_of(2, "cpu", memory_bytes=900 * MIB, headroom=0.1)
    return Job(adapter=made, ladder=ladder_of(made), budget=budget, folder=RunFolder.create(folder, "case"))


@pytest.mark.slow
@pytest.mark.parametrize(("value", "beside"), [("zero2", {}), ("zero3", {"checkpointing": True}), ("zero3", {"lora": 4})])
def test_a_trial_sees_that_its_ranks_share(value: str, beside: Mapping[str, Value], sums: Path, tmp_path: Path) -> None:
    asked = job(shared(sums, value, ask={"accumulation": 2, **beside}), tmp_path)
    tried = trial.run(asked, asked.ladder.asked)
    assert tried.verdict.fits, tried.verdict
    assert tried.report.uses[-1].phase == Phase.RESUME and any("was loaded" in note for note in tried.report.notes)
    reports = [TrialReport.read(tried.folder / "ranks" / rank / "report.json") for rank in ("0", "1")]
    said = [one for one in reports if one is not None]
    assert [(one.observed["sharding"], one.observed["world_size"], one.facts["effective_batch"]) for one in said] == [(value, 2, 16)] * 2
    assert {one.facts["parameters"] for one in said} == {said[0].facts["parameters"]} != {0}
    told = [re.search(r"holds (\S+ \S+) of (\S+ \S+) of weights", note) for one in said for note in one.notes]
    parts = [parse_size(one[1]) / parse_size(one[2]) for one in told if one is not None]
    assert parts == [pytest.approx(0.5 if value == "zero3" else 1.0, abs=0.2)] * 2  # told in whole MiB


class Stage1(TransformersAdapter):
    """Shares optimizer states alone."""

    def _arguments(self, rung: Any, *, on_cpu: bool) -> dict[str, Any]:
        args = super()._arguments(rung, on_cpu=on_cpu)
        return {**args, "deepspeed": {**args["deepspeed"], "zero_optimization": {"stage": 1, "reduce_bucket_size": "auto"}}}


@pytest.mark.slow
def test_a_rung_that_shares_less_than_it_says_is_refused(sums: Path, tmp_path: Path) -> None:
    asked = job(shared(sums, "zero2", ask={"accumulation": 2}), tmp_path, adapter=Stage1)
    tried = trial.run(asked, asked.ladder.asked)
    assert tried.verdict.kind is Kind.ALTERED and "sharding=in part instead of zero2" in tried.verdict.why, tried.verdict


@pytest.mark.slow
@pytest.mark.parametrize("value", ["zero2", "zero3"])
def test_an_update_of_smaller_micro_batches_is_the_asked_one(value: str, sums: Path, tmp_path: Path) -> None:
    asked = job(shared(sums, value, ask={"micro_batch": 8, "accumulation": 1}, args={"max_steps": 4}), tmp_path)
    rung = next(rung for rung in asked.ladder.rungs if rung.micro_batch == 2 and rung.values["sharding"] == value)
    found = proof.prove(asked, rung)
    assert not found.refused and found.same.gradient == found.same.steps == found.same.schedule == PROVEN, found
    assert found.same.layouts == ("4 x 1 x 2 ranks", "1 x 4 x 2 ranks")


ASKED = (
    "recipe=llm_sft_demo", "device.cards=2", "ask.sharding=zero2", "ladder.order=[micro_batch]", "ladder.search=walk",
    "ask.val_keeps=tokens", "ask.val_micro_batch=4", "trainer.args.eval_strategy=no", "trainer.args.save_strategy=steps",
    "trainer.args.save_steps=2", "trainer.args.max_steps=12", "trial.proof_timeout_s=1200",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_run_goes_down_a_rung_is_interrupted_and_resumed_and_is_the_same_training(tmp_path: Path) -> None:
    """Its final weights are those of the same batch in two ranks that share nothing and go through in one go."""
    pytest.importorskip("deepspeed", reason="deepspeed is not installed")
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    argv = [sys.executable, "-m", "launcher", "train", *ASKED, "--json"]
    running = subprocess.Popen(argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 1500
    while not list(tmp_path.glob("runs/autofit/*/run/checkpoint-*/samples_per_step.json")) and time.monotonic() < until:
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=300) == 130
    run = next((tmp_path / "runs" / "autofit").iterdir())
    left = resuming.checkpoints(run / "run")
    assert left and not left[0].finished and hf_run.shared_by(left[0].path) == "ZeRO 2 of 2 ranks"
    record = answer(autofit("resume", str(run), "--json", cwd=tmp_path, timeout=900))
    assert record["status"] == "done" and record["results"]["steps"] == 12 and record["attempts"][-1]["checkpoint"]
    assert failed_above(record) == {"out_of_memory"} and record["accumulation"] > 1 and record["rung"]["sharding"] == "zero2"
    same = json.loads((run / "record.json").read_text(encoding="utf-8"))["same_training"]
    assert (same["gradient"], same["schedule"]) == (PROVEN, PROVEN), same
    assert 0.75 < record["memory"]["run_peak_bytes"] / record["memory"]["trial_peak_bytes"] < 1.1
    subprocess.run(["bash", "-c", unshared(record["command"], tmp_path / "plain")], check=True, timeout=600, cwd=tmp_path)
    weights = [load_file(folder / "model.safetensors") for folder in (tmp_path / "plain", Path(record["results"]["output_dir"]))]
    assert max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0]) < 1e-5
    loaded = AutoModelForCausalLM.from_pretrained(record["results"]["output_dir"])
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight, "tied, though both were saved"


def unshared(command: str, output: Path) -> str:
    """The native command, which shares nothing and writes elsewhere."""
    words = shlex.split(command)
    for name in ("--deepspeed", "--accelerator_config", "--resume_from_checkpoint", "--output_dir"):
        at = words.index(name) if name in words else len(words)
        del words[at : at + 2]
    return shlex.join([*words, "--use_cpu", "True", "--output_dir", str(output)])
