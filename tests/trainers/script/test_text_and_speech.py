"""``trainer=text`` and ``trainer=speech``: the example scripts through trials, searches, ranks, proofs and runs, really run on the CPU."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.adapter.commands import under_budget
from tests.helpers import script

pytest.importorskip("transformers")

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.config.schema import Recipe, TrialRules
from autofit_launcher.ladder.same_training import PROVEN
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import devices
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial import proof, trial
from autofit_launcher.trial.job import Job
from tests.helpers.hf_data import make_sums, recipe
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums
from tests.helpers.places import lay

MIB = 2**20


def job(asked: Recipe, folder: Path) -> Job:
    adapter = ScriptAdapter(asked)
    assert adapter.check() == []
    budget = devices.find("cpu", memory_bytes=asked.device.memory, headroom=asked.device.headroom)
    return script.job(adapter, folder, budget)


def words_of(asked: Recipe, rung: int = 0) -> dict[str, str]:
    adapter = ScriptAdapter(asked)
    argv = adapter.command(ladder_of(adapter).rungs[rung], cpu_budget(), folder=Path("/runs/one")).argv[2:]
    return {key.removeprefix("--"): value for key, value in zip(argv[::2], argv[1::2], strict=True)}


def test_every_rung_keeps_the_effective_batch_and_says_its_wheels_as_flags(spoken: Path) -> None:
    asked = recipe(spoken, "speech", ask={"micro_batch": 6, "accumulation": 2, "label_length": 40, "precision": "bf16", "lora": 0})
    for number in range(len(ladder_of(ScriptAdapter(asked)).rungs)):
        words = words_of(asked, number)
        assert int(words["per_device_train_batch_size"]) * int(words["gradient_accumulation_steps"]) == 12
    wanted = {"generation_max_length": "16", "label_length": "40", "precision": "bf16", "lora_rank": "0", "language": "en"}
    assert wanted.items() <= words_of(asked).items() and words_of(asked)["output_dir"] == "/runs/one/run"


def test_evaluation_has_wheels_that_act_only_there(spoken: Path) -> None:
    ladder = ladder_of(ScriptAdapter(recipe(spoken, "speech", ask={"val_micro_batch": 8})))
    assert [(one.name, one.acts_in) for one in ladder.wheels[:2]] == [
        ("val_micro_batch", "validation"),
        ("generation_length", "validation"),
    ]
    assert ladder.wheels[0].values == (8, 4, 2, 1)


def test_several_cards_start_a_trainer_s_script_by_torchrun_and_no_other_script(sums: Path, tmp_path: Path) -> None:
    asked = recipe(sums, "text", device={"kind": "cpu", "cards": 2})
    adapter = ScriptAdapter(asked)
    assert adapter.check() == [] and adapter.asked.world_size == 2
    assert "torch.distributed.run --nproc_per_node 2" in " ".join(adapter.args.command)
    (tmp_path / "plain.py").write_text("import torch\n")
    rules = asked.trainer.model_copy(update={"args": {**asked.trainer.args, "command": ["python", str(tmp_path / "plain.py")]}})
    plain = ScriptAdapter(asked.model_copy(update={"trainer": rules}))
    assert plain.args.command[0] == "python" and [fault.key for fault in plain.check()] == ["device.cards"]


@pytest.mark.parametrize(("model", "fetched"), [("openai/whisper-tiny", True), ("{data}/model", False), ("./openai/whisper-tiny", False)])
def test_a_model_of_the_hub_is_fetched_before_its_trial(model: str, fetched: bool, spoken: Path, tmp_path: Path) -> None:
    adapter = ScriptAdapter(recipe(spoken, "speech", ask={"model": model.format(data=spoken)}))
    command = adapter.trial(ladder_of(adapter).asked, cpu_budget(), folder=tmp_path, cache=tmp_path).fetch
    assert (command is not None) is fetched
    assert command is None or command.argv[-1] == model


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_evaluation_said_to_overflow_really_does_and_one_said_to_fit_does_not(tmp_path: Path) -> None:
    """The trial sees a few batches of a long evaluation that keeps logits; the whole evaluation is then really run under the same cap."""
    data = make_sums(tmp_path / "data", train=200, validation=3000)
    said, done = {}, {}
    for mib in (150, 190, 600):
        ask = {"micro_batch": 2, "sequence_length": 64, "val_micro_batch": 8, "val_keeps": "logits"}
        args = {"eval_strategy": "epoch"}
        asked = recipe(data, "text", ask=ask, args=args, device={"kind": "cpu", "memory": mib * MIB, "headroom": 0.0})
        one = job(asked, tmp_path)
        one = replace(one, budget=replace(one.budget, cap_bytes=one.budget.budget_bytes))
        verdict = trial.run(one, one.ladder.asked).verdict
        said[mib] = verdict.kind
        command = one.adapter.command(one.ladder.asked, one.budget, folder=tmp_path / f"full{mib}")
        lay(command.files)
        held = under_budget(command, one.budget, settings=tmp_path / f"full{mib}" / "budget.json")
        env = {**os.environ, **held.env, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
        ended = subprocess.run(held.argv, env=env, capture_output=True, text=True, check=False, timeout=600)
        done[mib] = Kind.FITS if ended.returncode == 0 else Kind.OUT_OF_MEMORY
        print(f"\n{mib} MiB: said {verdict.kind} ({verdict.why}); whole run: {ended.returncode}")
    assert said == done
    assert set(said.values()) == {Kind.FITS, Kind.OUT_OF_MEMORY}


@pytest.mark.slow
@pytest.mark.parametrize(("task", "args"), [("text", {}), ("text", {"packing": False}), ("speech", {"label_smoothing_factor": 0.1})])
def test_a_recipe_s_update_is_the_asked_one(task: str, args: dict[str, object], request: pytest.FixtureRequest, tmp_path: Path) -> None:
    data = request.getfixturevalue("spoken" if task == "speech" else "sums")
    asked = recipe(data, task, ask={"micro_batch": 8}, args={"max_steps": 4, **args})
    asked = asked.model_copy(update={"trial": TrialRules(proof_timeout_s=1200.0)})
    one = replace(job(asked, tmp_path), budget=cpu_budget(2**30))
    found = proof.prove(one, next(rung for rung in one.ladder.rungs if rung.micro_batch == 2))
    assert not found.refused and found.same.cure == {}, found
    assert found.same.gradient == found.same.steps == found.same.schedule == PROVEN, found
