"""DeepSpeed's own configuration beside a command: what of it would keep a rung's batch from arriving is refused before anything starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import Fault
from launcher.trainers.script import checks, recognise
from launcher.trainers.script.adapter import ScriptAdapter
from tests.conftest import failed_above
from tests.helpers.command_line import answer, autofit
from tests.helpers.loader_scripts import recipe_of
from tests.helpers.places import SCRIPTS

AUTO = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "train_batch_size": "auto"}
ZERO = {"zero_optimization": {"stage": 2}}
HF = "from transformers import HfArgumentParser, Trainer, TrainingArguments\nargs = HfArgumentParser(TrainingArguments)\n"
IN_SOURCE = """from transformers import Trainer, TrainingArguments
args = TrainingArguments('o', per_device_train_batch_size=8, gradient_accumulation_steps=2, deepspeed={said})
Trainer(args=args).train()
"""
ACCELERATE = """import argparse
from accelerate import Accelerator
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--gradient_accumulation_steps", type=int, default=2)
"""
RAW = """import argparse, deepspeed
p = deepspeed.add_config_arguments(argparse.ArgumentParser())
deepspeed.initialize(args=p.parse_args())
"""
WORDS = "--per_device_train_batch_size 8 --gradient_accumulation_steps 2"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name, text in {"hf.py": HF, "mine.py": ACCELERATE, "raw.py": RAW}.items():
        Path(name).write_text(text)
    return tmp_path


def faults(line: str, says: dict[str, Any] | None = None, **ladder: Any) -> list[Fault]:
    """Of the recipe that the command amounts to, with such a ds.json."""
    Path("ds.json").write_text(json.dumps({**ZERO, **(says or {})}))
    recipe = recipe_of(recognise.understand(line.split()))
    recipe = recipe.model_copy(update={"ladder": recipe.ladder.model_copy(update=ladder)})
    return [fault for fault in checks.faults(recipe, ScriptAdapter(recipe).args, ScriptAdapter.wheels) if "DeepSpeed" in fault.found]


@pytest.mark.parametrize("how", ["--deepspeed ds.json", "--deepspeed=ds.json"])
@pytest.mark.parametrize(
    ("says", "found"),
    [
        (AUTO, []),
        (AUTO | {"train_batch_size": 16}, []),
        (AUTO | {"gradient_accumulation_steps": 2}, ["gradient_accumulation_steps: 2"]),
        (AUTO | {"train_micro_batch_size_per_gpu": 8}, ["train_micro_batch_size_per_gpu: 8"]),
        ({"train_micro_batch_size_per_gpu": "auto"}, ["has no gradient_accumulation_steps, which is 1 then"]),
    ],
)
def test_numbers_in_its_file_that_transformers_would_hold_against_a_rungs_are_refused(
    how: str, says: dict[str, Any], found: list[str]
) -> None:
    said = faults(f"python hf.py --output_dir o {WORDS} {how}", says)
    assert len(said) == len(found) and all(text in fault.found for text, fault in zip(found, said, strict=True))
    assert all("ds.json" in fault.found and '"auto"' in fault.cure and "ladder.wheels.micro_batch.floor" in fault.cure for fault in said)


def test_a_micro_batch_that_is_not_turned_is_tried_with_them() -> None:
    line = f"python hf.py --output_dir o {WORDS} --deepspeed ds.json"
    assert faults(line, {"gradient_accumulation_steps": 2}) and not faults(line, {"gradient_accumulation_steps": 2}, order=("image_size",))


def test_what_the_source_or_a_configuration_file_names_counts() -> None:
    Path("own.py").write_text(IN_SOURCE.replace("{said}", '"ds.json"'))
    assert len(faults("python own.py", {"gradient_accumulation_steps": 2})) == 1
    Path("job.yaml").write_text("per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\ndeepspeed: ds.json\n")
    Path("plain.py").write_text("import sys\n")
    assert len(faults("python plain.py job.yaml", {"gradient_accumulation_steps": 2})) == 1
    assert not faults("python plain.py job.yaml", AUTO)


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ("gradient_accumulation_steps: 1", "deepspeed_config.gradient_accumulation_steps: 1"),
        ("zero_stage: 2", ""),
        ("deepspeed_config_file: ds.json", "ds.json says gradient_accumulation_steps: 4"),
    ],
)
def test_accelerates_own_file_overrules_what_a_script_says_to_it(section: str, found: str) -> None:
    """``ACCELERATE_GRADIENT_ACCUMULATION_STEPS`` and the file count before ``Accelerator(gradient_accumulation_steps=...)``."""
    Path("launch.yaml").write_text(f"distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  {section}\n")
    said = faults("accelerate launch --config_file launch.yaml mine.py", {"gradient_accumulation_steps": 4})
    assert [found in fault.found for fault in said] == ([True] if found else [])
    flags = "accelerate launch --use_deepspeed --gradient_accumulation_steps 4 mine.py"
    assert "gradient_accumulation_steps: 4" in faults(flags)[0].found


def test_a_file_that_alone_says_the_batch_is_turned_itself() -> None:
    line = "torchrun --nproc_per_node 2 raw.py --deepspeed --deepspeed_config ds.json"
    both = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2, "train_batch_size": 32}
    assert not faults(line, both)
    found = recognise.understand(line.split())
    assert found.ask == {"micro_batch": 8, "accumulation": 2}
    assert found.args["spelled"]["accumulation"] == "config:gradient_accumulation_steps" and "micro_batch" in found.ladder["order"]


def test_the_batch_of_a_step_beside_its_part_is_taken_in_parts_by_deepspeed() -> None:
    line = "python raw.py --deepspeed --deepspeed_config ds.json"
    assert not faults(line, {"train_micro_batch_size_per_gpu": 8, "train_batch_size": 32})
    found = recognise.understand(line.split())
    assert found.ask == {"micro_batch": 8} and found.args["spelled"]["accumulation"] == "itself", "how many, its trials show"


@pytest.mark.parametrize("line", ["raw.py --deepspeed_config ds.json", "raw.py --settings ds.json"])
def test_its_steps_are_never_held_back_from_outside(line: str) -> None:
    Path("ds.json").write_text(json.dumps({**ZERO, "train_micro_batch_size_per_gpu": 8}))
    found = recognise.understand(["python", *line.split()])
    assert "accumulation" not in found.ask and any("DeepSpeed makes the steps" in remark for remark in found.remarks["ask"])
    recipe = recipe_of(found)
    args = {**recipe.trainer.args, "spelled": {**recipe.trainer.args["spelled"], "accumulation": "outside"}}
    recipe = recipe.model_copy(update={"trainer": recipe.trainer.model_copy(update={"args": args})})
    said = checks.faults(recipe, ScriptAdapter(recipe).args, ScriptAdapter.wheels)
    assert ["DeepSpeed makes the steps" in fault.found for fault in said] == [True]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_ranks_go_down_a_rung_and_train_to_the_end_with_the_batch_that_was_asked(folder: Path) -> None:
    """ZeRO looks for gradients where fast-forward makes none: the engine's own backward pass and step are left out there."""
    pytest.importorskip("deepspeed", reason="deepspeed is not installed")
    says = {"train_micro_batch_size_per_gpu": 2048, "gradient_accumulation_steps": 1, "train_batch_size": 4096}
    zero = {"stage": 2, "reduce_bucket_size": 1_000_000, "allgather_bucket_size": 1_000_000}
    Path("ds.json").write_text(json.dumps({**says, "zero_optimization": zero, "zero_allow_untested_optimizer": True}))
    ranks = [sys.executable, "-m", "torch.distributed.run", "--local_addr=localhost", "--nproc_per_node", "2"]
    words = [*ranks, str(SCRIPTS / "deepspeed_ranks.py"), "--deepspeed", "--deepspeed_config", "ds.json"]
    done = autofit("run", "device=cpu", "device.memory=684MiB", "ladder.search=walk", "--json", "--", *words, cwd=folder, timeout=800)
    assert done.returncode == 0, done.stderr
    record = answer(done)
    assert failed_above(record) == {"out_of_memory"} and record["effective_batch"] == 4096
    micro_batch, accumulation = record["rung"]["micro_batch"], record["accumulation"]
    assert micro_batch * accumulation == 2048 and accumulation > 1
    said = (Path(record["run_dir"]) / "run.stdout.log").read_text()
    assert said.count(f"12 steps of 4096, {micro_batch} at once") == 2
    assert json.loads(Path("ds.json").read_text())["train_micro_batch_size_per_gpu"] == 2048, "the person's own file is as it was"
    assert 0.8 < record["memory"]["run_peak_bytes"] / record["memory"]["trial_peak_bytes"] < 1.1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_ranks_of_a_trainer_that_hands_it_a_file_with_auto_go_down_a_rung_and_train_to_the_end(folder: Path) -> None:
    """ZeRO's optimizer steps once for each of its two groups of weights: six steps, and not twelve."""
    pytest.importorskip("deepspeed", reason="deepspeed is not installed")
    zero = {"stage": 2, "reduce_bucket_size": 1_000_000, "allgather_bucket_size": 1_000_000}
    auto = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
    Path("ds.json").write_text(json.dumps({**dict.fromkeys(auto, "auto"), "zero_optimization": zero}))
    words = [sys.executable, "-m", "torch.distributed.run", "--local_addr=localhost", "--nproc_per_node", "2"]
    words += [str(SCRIPTS / "deepspeed_trainer.py"), "--output_dir", "o", "--per_device_train_batch_size", "32", "--max_steps", "6"]
    words += ["--gradient_accumulation_steps", "1", "--report_to", "none", "--deepspeed", "ds.json"]
    words += ["--accelerator_config", '{"use_configured_state": true}']
    done = autofit("run", "device=cpu", "device.memory=560MiB", "ladder.search=walk", "--json", "--", *words, cwd=folder, timeout=800)
    assert done.returncode == 0, done.stderr
    record = answer(done)
    assert failed_above(record) == {"out_of_memory"} and record["effective_batch"] == 64
    assert record["rung"]["micro_batch"] * record["accumulation"] == 32 and record["accumulation"] > 1
    assert record["steps"]["made"] == 6 and "DeepSpeed's ZeRO" in record["same_training"]["gradient"], record["same_training"]
    assert (Path(record["run_dir"]) / "run.stdout.log").read_text().count("6 steps of 64 rows") == 2
    assert 0.8 < record["memory"]["run_peak_bytes"] / record["memory"]["trial_peak_bytes"] < 1.1
