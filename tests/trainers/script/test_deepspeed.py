"""DeepSpeed's own configuration beside a command is turned where it alone says the batch; its steps are never held back from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autofit_launcher.trainers.script import outside, recognise
from tests.conftest import failed_above
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS, lay

RAW = """import argparse, deepspeed
p = deepspeed.add_config_arguments(argparse.ArgumentParser())
deepspeed.initialize(args=p.parse_args())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    Path("raw.py").write_text(RAW)
    return tmp_path


def test_a_file_that_alone_says_the_batch_is_turned_itself() -> None:
    Path("ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2, "train_batch_size": 32}))
    found = recognise.understand(["torchrun", "--nproc_per_node", "2", "raw.py", "--deepspeed", "--deepspeed_config", "ds.json"])
    assert found.ask == {"micro_batch": 8, "accumulation": 2}
    assert found.args["spelled"]["accumulation"] == "config:gradient_accumulation_steps" and "micro_batch" in found.ladder["order"]


def test_the_batch_of_a_step_beside_its_part_is_taken_in_parts_by_deepspeed() -> None:
    Path("ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 8, "train_batch_size": 32}))
    found = recognise.understand(["python", "raw.py", "--deepspeed", "--deepspeed_config", "ds.json"])
    assert found.ask == {"micro_batch": 8} and found.args["spelled"]["accumulation"] == "itself", "how many, its trials show"


def test_its_steps_are_never_held_back_from_outside(folder: Path) -> None:
    engine = folder / "deepspeed" / "runtime" / "engine.py"
    engine.parent.mkdir(parents=True)
    engine.write_text("class DeepSpeedEngine:\n    pass\n")
    Path("steps.py").write_text("from deepspeed.runtime.engine import DeepSpeedEngine\nDeepSpeedEngine(model=None)\n")
    variables, files = outside.placed({outside.ACCUMULATE: "2"}, place=folder / "native", env={})
    lay(files)
    done = subprocess.run([sys.executable, "steps.py"], env={**os.environ, **variables}, capture_output=True, text=True)
    assert "NotExact: accumulation from outside can't be exact here: DeepSpeed makes the steps" in done.stderr


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
