"""What a trainer's own loggers are told of autofit's choice: read back with TensorBoard, and where they are installed W&B and MLflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cost.watching import job as script_job
from launcher.machine import process
from launcher.run import event_file, supervise, trackers
from launcher.run.attempt import Attempt
from launcher.run.trackers import MLFLOW_CONTEXT, WANDB_TAGS
from launcher.trial.job import Job

TOLD: trackers.Facts = {"rung": 3, "micro_batch": 8, "effective_batch": 64, "trial_peak_bytes": 3 << 30, "run_dir": "/a/run"}
LOGS = """
import sys
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(sys.argv[1]) as writer:
    writer.add_scalar("loss", 0.5, 1)
"""


def parameters(folder: Path) -> tuple[dict[str, Any], str, list[str]]:
    """(parameters, words, scalars) that TensorBoard finds in a folder."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from tensorboard.plugins.hparams import metadata

    read = accumulator.EventAccumulator(str(folder))
    read.Reload()
    if "_hparams_/session_start_info" not in read.Tags()["tensors"]:
        return {}, "", read.Tags()["scalars"]
    told = metadata.parse_session_start_info_plugin_data(read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content)
    values = {name: value.number_value if value.HasField("number_value") else value.string_value for name, value in told.hparams.items()}
    words = read.Tensors("autofit/text_summary")[0].tensor_proto.string_val[0].decode()
    return values, words, read.Tags()["scalars"]


def followed(job: Job, script: str, *words: str) -> None:
    path = job.folder.path / "work.py"
    path.write_text(script, encoding="utf-8")
    files = job.folder.attempt(1)
    child = process.start((sys.executable, str(path), *words), env={}, stdout=files.stdout, stderr=files.stderr)
    outcome = supervise.follow(job, child, [Attempt(number=1, rung=job.ladder.asked, command="", began=time.time())], base_bytes=0)
    assert outcome.done, files.stderr.read_text(encoding="utf-8")


def test_a_run_that_logs_to_tensorboard_has_its_parameters_there_and_no_other_run_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-c", LOGS, "logs/someone_elses"], check=True)
    job = script_job(tmp_path / "runs")
    followed(job, LOGS, "logs/mine")
    values, words, scalars = parameters(tmp_path / "logs" / "mine")
    assert scalars == ["loss"] and "| rung | 0 |" in words
    assert (values["autofit.micro_batch"], values["autofit.effective_batch"], values["autofit.rung"]) == (8, 8, 0)
    assert values["autofit.run_peak_bytes"] > 0 and values["autofit.run_dir"] == str(job.folder.path)
    assert parameters(tmp_path / "logs" / "someone_elses") == ({}, "", ["loss"])


def test_text_and_numbers_of_any_size_come_back_as_they_were(tmp_path: Path) -> None:
    told = {"few": 0, "many": 10**15, "name": "Größe " * 60}
    (tmp_path / f"{event_file.PREFIX}0000000001.host.1.0").write_bytes(event_file.content(told, {"name": "x"}, at=1.5))
    assert parameters(tmp_path)[0] == {f"autofit.{name}": value for name, value in told.items()}


def test_the_environment_keeps_what_a_person_had_there() -> None:
    theirs = {WANDB_TAGS: "mine", MLFLOW_CONTEXT: '{"team": "vision"}'}
    env = trackers.environment(TOLD, theirs)
    assert env[WANDB_TAGS] == "mine,autofit rung 3,autofit micro batch 8,autofit effective batch 64,autofit trial peak 3.0 GiB"
    assert json.loads(env[MLFLOW_CONTEXT]) == {"team": "vision", **{f"autofit.{name}": str(value) for name, value in TOLD.items()}}
    assert env["AUTOFIT_RUNG"] == "3" and env["AUTOFIT_TRIAL_PEAK_BYTES"] == str(3 << 30)
    assert MLFLOW_CONTEXT not in trackers.environment(TOLD, {MLFLOW_CONTEXT: "no json"})


def said(program: str, tmp_path: Path, **more: str) -> Mapping[str, Any]:
    """The last line of a program that runs with the environment, as JSON."""
    env = {**os.environ, **trackers.environment(TOLD, {}), **more}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=300)
    told: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_weights_and_biases_takes_the_tags(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="pip install wandb")
    program = "import json, wandb\nrun = wandb.init(mode='offline', config={'lr': 1})\nprint(json.dumps(run.tags))\nrun.finish()"
    assert "autofit effective batch 64" in said(program, tmp_path, WANDB_SILENT="true")


def test_mlflow_takes_the_tags_and_they_may_change_when_a_run_is_resumed(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="pip install mlflow-skinny")
    program = (
        "import json, mlflow, os\nwith mlflow.start_run() as run:\n    mlflow.log_param('lr', 1)\n"
        "print(json.dumps({**mlflow.get_run(run.info.run_id).data.tags, 'id': run.info.run_id}))"
    )
    place = {"MLFLOW_TRACKING_URI": f"file:{tmp_path / 'mlruns'}", "MLFLOW_ALLOW_FILE_STORE": "true"}
    first = said(program, tmp_path, **place)
    assert first["autofit.rung"] == "3"
    said(program, tmp_path, MLFLOW_RUN_ID=first["id"], **place)
