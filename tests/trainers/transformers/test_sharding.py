"""Weights shared among ranks: the words of a rung, what is refused before a launch, and two gloo ranks that really share on a CPU."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("transformers")

from launcher.config.schema import Recipe, Value
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.verdict import Kind
from launcher.machine import ranks, torchrun
from launcher.shared.report import Phase, TrialReport
from launcher.shared.sizes import parse_size
from launcher.trainers.suite import cpu_budget
from launcher.trainers.transformers import resuming, sharding
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trainers.transformers.native import hf_run
from launcher.trial import trial
from launcher.trial.job import Job
from tests.helpers.command_line import answer, autofit
from tests.helpers.hf_data import recipe as make
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums
from tests.helpers.places import ROOT

MIB = 2**20
ORDER = ("micro_batch", "sharding", "checkpointing")


def shared(data: Path, value: Value = "fsdp2", *, task: str = "text", cards: Any = 2, kind: str = "cpu", **more: Any) -> Recipe:
    wheels = {"sharding": {"values": tuple(more.pop("values"))}} if "values" in more else {}
    ask = {"sharding": value, "val_micro_batch": 4, **more.pop("ask", {})}
    return make(
        data, task, ask=ask, ladder={"order": more.pop("order", ORDER), "wheels": wheels}, device={"kind": kind, "cards": cards}, **more
    )


def found(recipe: Recipe) -> str:
    return "\n".join(str(fault) for fault in TransformersAdapter(recipe).check())


def values(recipe: Recipe) -> list[Value]:
    return list(dict.fromkeys(rung.values["sharding"] for rung in ladder_of(TransformersAdapter(recipe)).rungs))


# ----------------------------------------------------------------------------------------------------------------------
# Words


def test_a_rung_that_shares_is_said_in_trainers_own_words(sums: Path) -> None:
    given = {"accelerator_config": {"non_blocking": False, "gradient_accumulation_kwargs": {"adjust_scheduler": True}}}
    adapter = TransformersAdapter(shared(sums, "none", args=given))
    rungs = {rung.values["sharding"]: adapter._arguments(rung, on_cpu=False) for rung in ladder_of(adapter).rungs}
    assert "fsdp" not in rungs["none"] and sharding.environment(rungs["none"], cpu=True) == {}
    assert [rungs[value]["fsdp_config"]["reshard_after_forward"] for value in ("fsdp2", "fsdp2_reshard")] == [False, True]
    accelerator = rungs["fsdp2"]["accelerator_config"]
    assert accelerator == {"non_blocking": False, "gradient_accumulation_kwargs": {"adjust_scheduler": True, "sync_each_batch": True}}
    offloaded = {**rungs["fsdp2"], **sharding.arguments("fsdp2_offload", {})}
    assert offloaded["fsdp_config"]["cpu_offload"] and sharding.environment(offloaded, cpu=False)["FSDP_OFFLOAD_PARAMS"] == "true"
    command = adapter.full_run(ladder_of(adapter).rungs[-1], cpu_budget(), folder=Path("/runs/one"))
    assert "--fsdp" in command.argv and "--use_cpu" not in command.argv, "with use_cpu Trainer shards nothing, without a word"
    assert command.env["ACCELERATE_TORCH_DEVICE"] == "cpu"


def test_a_ladder_shares_more_from_rung_to_rung_where_there_is_somebody_to_share_with(sums: Path) -> None:
    assert values(shared(sums, "none")) == ["none", "fsdp2", "fsdp2_reshard"], "a CPU has no card to take weights from"
    assert values(shared(sums, "none", values=["fsdp2_reshard"])) == ["none", "fsdp2_reshard"]
    assert values(shared(sums, "none", cards=None)) == ["none"], "the same recipe, on one card"
    fewer = shared(sums, "none", order=("cards", *ORDER))
    assert values(fewer) == ["none"] and found(fewer) == "", "a lower rung has one card"
    assert found(shared(sums, "none")) == found(shared(sums, "none", cards=None)) == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"cards": None}, "nobody to share with"),
        ({"value": "none", "values": ["fsdp2"], "cards": 1}, "ladder.wheels.sharding.values: fsdp2: one process"),
        ({"order": ("cards", *ORDER)}, "Set ladder.wheels.cards.floor=2"),
        ({"value": "fsdp2_offload"}, "a CPU has no card"),
        ({"value": "deepspeed_zero3"}, "zero2 or zero3; fsdp2_reshard needs no further package"),
        ({"value": "fsdp3"}, "no such sharding"),
        ({"args": {"fsdp": True}}, "set ask.sharding"),
        ({"args": {"accelerator_config": "file.json"}}, "a file's accelerator_config"),
        ({"ask": {"precision": "bf16"}}, "without that precision"),
        ({"ask": {"precision": "fp16"}, "kind": "cuda"}, "sums overflow"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_starts(more: Mapping[str, Any], said: str, sums: Path) -> None:
    assert said in found(shared(sums, **more))


def test_a_checkpoint_of_ranks_that_shared_goes_on_only_where_they_share(sums: Path, tmp_path: Path) -> None:
    there: dict[str, Any] = {"args": {"resume_from_checkpoint": str(tmp_path)}}
    (tmp_path / "trainer_state.json").write_text("{}", encoding="utf-8")
    assert found(shared(sums, "none", **there)) == "" and values(shared(sums, "none", **there)) == ["none"]
    assert "weights that were not shared" in found(shared(sums, "fsdp2", **there))
    (tmp_path / hf_run.SHARDED_WEIGHTS).touch()
    assert found(shared(sums, "fsdp2_reshard", **there)) == ""
    assert "weights that were shared" in found(shared(sums, "none", **there))
    plain = make(sums, "text", ask={"val_micro_batch": 4}, **there)
    assert "trainer.args.resume_from_checkpoint" in found(plain), "where nothing is said nothing is shared"
    with pytest.raises(hf_run.Refused, match="saved with FSDP, and this run trains with nothing shared"):
        hf_run.checked_resume(SimpleNamespace(resume_from_checkpoint=str(tmp_path), fsdp=None))


def test_ranks_that_generate_would_wait_for_each_other(spoken: Path) -> None:
    assert "predict_with_generate=false" in found(shared(spoken, task="speech"))
    quiet = shared(spoken, task="speech", ask={"generation_length": None}, args={"predict_with_generate": False})
    assert found(quiet) == ""


def test_a_model_whose_layers_transformers_does_not_name_is_refused(sums: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in (sums / "model").iterdir():
        (other / file.name).symlink_to(file)
    (other / "config.json").unlink()
    (other / "config.json").write_text(json.dumps({"model_type": "cpmant"}), encoding="utf-8")
    assert "names no layer of a cpmant model" in found(shared(sums, ask={"model": str(other)}))


def test_packages_that_know_no_fsdp2_are_named_with_what_they_need() -> None:
    versions = {"torch": "2.5.1+cu121", "accelerate": "1.15.0", "transformers": "4.57.3"}
    assert sharding.too_old(versions.__getitem__) == [("torch", "2.5.1+cu121", "2.6"), ("transformers", "4.57.3", "5.8")]
    assert sharding.too_old() == []


def test_another_trainer_has_no_such_wheel(tmp_path: Path) -> None:
    done = autofit("ladder", "recipe=yolo_demo", "ask.sharding=fsdp2", cwd=tmp_path)
    assert done.returncode == 1 and "ultralytics has no wheel of that name" in done.stderr


# ----------------------------------------------------------------------------------------------------------------------
# Really shared, over gloo


def job(asked: Recipe, folder: Path, *, memory: int = 500 * MIB) -> Job:
    adapter = TransformersAdapter(asked)
    assert adapter.check() == []
    budget = ranks.budget_of(2, "cpu", memory_bytes=memory, headroom=0.1)
    return Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget, folder=RunFolder.create(folder, "case"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "beside"), [("none", {}), ("fsdp2", {}), ("fsdp2_reshard", {"checkpointing": True}), ("fsdp2_reshard", {"lora": 4})]
)
def test_a_trial_sees_that_its_ranks_share(value: str, beside: Mapping[str, Value], sums: Path, tmp_path: Path) -> None:
    frozen = {"dtype": "bfloat16"} if "lora" in beside else {}
    asked = job(shared(sums, value, ask={"accumulation": 2, **beside}, args=frozen), tmp_path)
    tried = trial.run(asked, asked.ladder.asked)
    assert tried.verdict.fits, tried.verdict
    assert tried.report.uses[-1].phase == Phase.RESUME and any("was loaded" in note for note in tried.report.notes)
    reports = [TrialReport.read(tried.folder / "ranks" / rank / "report.json") for rank in ("0", "1")]
    assert [one.observed["sharding"] for one in reports if one is not None] == [value] * 2
    told = [re.search(r"holds (\S+ \S+) of (\S+ \S+) of weights", note) for one in reports if one is not None for note in one.notes]
    parts = [parse_size(one[1]) / parse_size(one[2]) for one in told if one is not None]
    assert parts == ([] if value == "none" else [pytest.approx(0.5, abs=0.2)] * 2)


@pytest.mark.slow
def test_speech_is_shared_where_no_evaluation_generates(spoken: Path, tmp_path: Path) -> None:
    quiet = shared(spoken, "fsdp2_reshard", task="speech", ask={"generation_length": None}, args={"predict_with_generate": False})
    asked = job(quiet, tmp_path, memory=900 * MIB)
    tried = trial.run(asked, asked.ladder.asked)
    assert tried.verdict.fits and tried.report.observed["sharding"] == "fsdp2_reshard", tried.verdict


class Unshared(TransformersAdapter):
    """Adds what makes transformers leave out all sharding without a word."""

    def _arguments(self, rung: Any, *, on_cpu: bool) -> dict[str, Any]:
        args = super()._arguments(rung, on_cpu=on_cpu)
        plain = {key: value for key, value in args["accelerator_config"].items() if key != "use_configured_state"}
        return {**args, "use_cpu": True, "accelerator_config": plain}


@pytest.mark.slow
def test_a_rung_that_says_so_and_did_not_share_is_refused(sums: Path, tmp_path: Path) -> None:
    asked = shared(sums)
    budget = ranks.budget_of(2, "cpu", memory_bytes=500 * MIB, headroom=0.1)
    adapter = Unshared(asked)
    tried = trial.run(
        Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget, folder=RunFolder.create(tmp_path, "case")), ladder_of(adapter).asked
    )
    assert tried.verdict.kind is Kind.ALTERED and "sharding=none instead of fsdp2" in tried.verdict.why, tried.verdict


@pytest.mark.slow
def test_a_shared_checkpoint_goes_on_in_another_number_of_ranks_that_share_otherwise(sums: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    def trained(into: str, number: int, value: str, accumulation: int, *more: str) -> Mapping[str, Any]:
        asked = shared(sums, value, cards=number, ask={"accumulation": accumulation}, args={"max_steps": 4, "save_steps": 2, "seed": 1})
        adapter = TransformersAdapter(asked)
        command = adapter.full_run(ladder_of(adapter).asked, cpu_budget(), folder=tmp_path / into)
        for path, text in command.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        words = torchrun.launched((*command.argv, *more), devices=number)
        subprocess.run(words, env={**os.environ, **command.env, "OMP_NUM_THREADS": "1"}, check=True, timeout=600)
        return dict(load_file(tmp_path / into / "run" / "model.safetensors"))

    whole = trained("two", 2, "fsdp2_reshard", 2)
    resumed = trained("four", 4, "fsdp2", 1, "--resume_from_checkpoint", str(tmp_path / "two" / "run" / "checkpoint-2"))
    assert max(float((whole[name] - resumed[name]).abs().max()) for name in whole) < 1e-5


ASKED = (
    "recipe=llm_sft_demo", "device.cards=2", "ask.micro_batch=4", "ask.val_keeps=tokens", "ask.val_micro_batch=4", "ask.sequence_length=64",
    "trainer.args.eval_strategy=no", "trainer.args.save_strategy=steps", "trainer.args.save_steps=2", "trainer.args.max_steps=12",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_run_that_shares_is_interrupted_and_resumed_and_is_the_same_training(tmp_path: Path) -> None:
    """Its final weights are those of the two ranks that share nothing and went through in one go."""
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    plain = answer(autofit("train", *ASKED, "ask.sharding=none", "--json", cwd=tmp_path, timeout=900))
    argv = [sys.executable, "-m", "launcher", "train", *ASKED, "ask.sharding=fsdp2_reshard", "--json"]
    env = {"PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(argv, cwd=tmp_path, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)
    before, until = Path(plain["run_dir"]).name, time.monotonic() + 600
    while not _saved(tmp_path, before) and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=300) == 130
    run = next(one for one in (tmp_path / "runs" / "autofit").iterdir() if one.name != before)
    left = resuming.checkpoints(run / "run")
    assert left and not left[0].finished and (left[0].path / "pytorch_model_fsdp.bin").is_file()
    record = answer(autofit("resume", str(run), "--json", cwd=tmp_path, timeout=900))
    assert record["status"] == "done" and record["results"]["steps"] == 12 and record["rung"]["sharding"] == "fsdp2_reshard"
    assert record["attempts"][-1]["checkpoint"]
    weights = [load_file(Path(one["results"]["output_dir"]) / "model.safetensors") for one in (plain, record)]
    apart = max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0])
    assert apart < 1e-5
    loaded = AutoModelForCausalLM.from_pretrained(record["results"]["output_dir"])
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight, "tied, though both were saved"
    assert 0.75 < record["memory"]["run_peak_bytes"] / record["memory"]["trial_peak_bytes"] < 1.1


def _saved(place: Path, before: str) -> bool:
    there = place.glob("runs/autofit/*/run/checkpoint-*/samples_per_step.json")
    return any(before not in str(one) for one in there)
