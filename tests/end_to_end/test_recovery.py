"""A night as it happens: the trainer fails on its way, for real and from outside, and the run comes to its end all the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml

from autofit_launcher.trainers.suite import snapshot
from benchmarks.faults import inject
from tests.conftest import launched_with
from tests.helpers import resumable
from tests.helpers.places import ROOT

NIGHT = "NIGHT_OF_A_TEST"


class Night:
    """One launch in a person's folder, watched and meddled with from outside."""

    def __init__(self, place: Path, recipe: dict[str, Any], *, name: str = "night") -> None:
        self.place = place
        (place / "recipes").mkdir(exist_ok=True)
        (place / "recipes" / f"{name}.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(recipe)}")
        self.words = ["train", f"recipe={name}"]
        self.running: subprocess.Popen[str] | None = None

    def start(self, *words: str) -> subprocess.Popen[str]:
        env = {
            **os.environ, "PYTHONPATH": str(ROOT), "YOLO_CONFIG_DIR": str(self.place / "home"), "YOLO_OFFLINE": "1", NIGHT: str(self.place),
        }  # fmt: skip
        argv = [sys.executable, "-m", "autofit_launcher", *(words or self.words), "--json"]
        with (self.place / "err").open("a") as err:
            self.running = subprocess.Popen(argv, cwd=self.place, env=env, stdout=subprocess.PIPE, stderr=err, text=True)
        return self.running

    @property
    def folder(self) -> Path:
        return next(iter(sorted((self.place / "runs" / "autofit").glob("*"))))

    def until(self, there: Callable[[], object], *, timeout_s: float = 240) -> None:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            assert self.running is not None and self.running.poll() is None, f"it ended too early: {self.said_on_stderr()}"
            try:
                if there():
                    return
            except (OSError, StopIteration, ValueError):
                pass
            time.sleep(0.02)
        raise AssertionError(f"never seen: {self.said_on_stderr()}")

    def trainer(self) -> psutil.Process:
        assert self.running is not None
        return inject.trainers(self.running.pid, self.folder)[0]

    def end(self, *, timeout_s: float = 300) -> tuple[int, dict[str, Any]]:
        assert self.running is not None
        out, _ = self.running.communicate(timeout=timeout_s)
        return self.running.returncode, json.loads(out.splitlines()[-1])

    def said_on_stderr(self) -> str:
        return (self.place / "err").read_text()

    def left_over(self) -> list[int]:
        """Living processes of this night."""
        return launched_with(NIGHT, self.place)


@pytest.fixture
def script(tmp_path: Path) -> Night:
    (tmp_path / "train.py").write_text((ROOT / "tests" / "data" / "scripts" / "resumable.py").read_text())
    return Night(tmp_path, resumable.recipe("--epochs", "8", "--pause", "0.2"))


def epochs(night: Night) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (night.folder / "run" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_night_with_a_killed_autofit_a_scheduler_and_a_thief_of_memory_is_gone_on_with_to_its_end(script: Night) -> None:
    script.start(*script.words)
    script.until(lambda: len(epochs(script)) >= 1)
    orphan = script.trainer()
    assert script.running is not None
    script.running.kill()
    script.running.wait()
    psutil.wait_procs([orphan], timeout=60)
    assert not orphan.is_running() and not script.left_over(), "the trainer does not outlive its launcher"
    assert json.loads((script.folder / "record.json").read_text())["status"] == "running"

    script.start("resume", str(script.folder))
    script.until(lambda: len(epochs(script)) >= 2)
    script.running.send_signal(signal.SIGTERM)
    status, said = script.end()
    assert (status, said["status"], said["signal"]) == (75, "interrupted", "SIGTERM") and not script.left_over()
    assert f"autofit resume {said['run_dir']}" in script.said_on_stderr()

    script.start("resume", str(script.folder))
    script.until(lambda: len(epochs(script)) >= 3)
    inject.take_memory(script.trainer(), watch_s=0.3)
    status, said = script.end()
    assert status == 0, script.said_on_stderr()
    assert [one["ended"] for one in said["attempts"]] == ["interrupted", "interrupted", "out_of_memory", "done"]
    assert [one["rung"]["micro_batch"] for one in said["attempts"]] == [16, 16, 16, 8]
    done = epochs(script)
    assert [row["epoch"] for row in done] == list(range(8)) and {row["batch"] for row in done} == {16} and done[-1]["steps"] == 32
    assert len(said["trials"]) == 1, "what a trial has told is not asked again"
    assert not script.left_over()

    before = snapshot(script.folder)
    script.start("resume", str(script.folder))
    assert script.end()[0] == 0 and snapshot(script.folder) == before, "a run that is done stays as it is"


@pytest.mark.slow
def test_a_script_is_accumulated_from_outside_where_it_goes_on_one_rung_lower_and_each_gradient_is_whole(tmp_path: Path) -> None:
    """A late out-of-memory, and steps that are held back from outside, in one training: its weights are those of the plain one."""
    (tmp_path / "train.py").write_text((ROOT / "tests" / "data" / "scripts" / "resumable.py").read_text())
    told = resumable.recipe("--epochs", "4", "--pause", "0.2")
    told["trainer"]["args"]["spelled"]["accumulation"] = "outside"
    night = Night(tmp_path, told)
    night.start(*night.words)
    night.until(lambda: len(epochs(night)) >= 1)
    inject.take_memory(night.trainer(), watch_s=0.3)
    status, said = night.end()
    assert status == 0, night.said_on_stderr()
    assert [(one["ended"], one["rung"]["micro_batch"], one["accumulation"]) for one in said["attempts"]] == [
        ("out_of_memory", 16, 1), ("done", 8, 2),
    ]  # fmt: skip
    assert said["effective_batch"] == 16 and [row["epoch"] for row in epochs(night)] == list(range(4))

    plain = [sys.executable, "train.py", "--epochs", "4", "--pause", "0", "--batch-size", "16", "--out", "plain"]
    subprocess.run(plain, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    own, kept = (torch.load(folder / "epoch3.pt")["model"] for folder in (tmp_path / "plain", night.folder / "run"))
    apart = max(float((kept[name] - own[name]).norm() / own[name].norm()) for name in own)
    assert apart < 1e-4, apart
