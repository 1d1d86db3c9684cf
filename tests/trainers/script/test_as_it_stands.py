"""Commands that are read wrong, not at all, or whose batch is said elsewhere: their record and weights, with real trials."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS

pytestmark = pytest.mark.slow


def launched(tmp_path: Path, script: str, *words: str, memory: str = "1GiB") -> tuple[CompletedProcess[str], dict[str, Any], str]:
    """(the process, its record, its words in one line)"""
    command = (sys.executable, str(SCRIPTS / script), *words)
    done = autofit("run", "device=cpu", f"device.memory={memory}", "--json", "--", *command, cwd=tmp_path)
    return done, answer(done), " ".join(done.stderr.split())


def test_what_a_command_runs_is_what_was_asked_whatever_was_read(tmp_path: Path) -> None:
    (tmp_path / "profile.txt").write_text(json.dumps({"batch_size": 256, "accum": 2}))
    done, said, words = launched(tmp_path, "says_it_elsewhere.py")
    assert done.returncode == 0 and said["misread"]["believed"], done.stderr
    assert said["misread"]["read"] == {"micro_batch": 64, "accumulation": 1}
    assert said["misread"]["ran"] == {"micro_batch": 256, "accumulation": 2}
    assert (said["rung"]["micro_batch"], said["accumulation"], said["effective_batch"]) == (256, 2, 512)
    assert "the command as it stands ran micro_batch 256 and accumulation 2" in words
    assert "effective batch 512, as asked" in words and "trained 256 x 2" in done.stderr


def test_a_command_with_nothing_to_turn_is_guarded(tmp_path: Path) -> None:
    done, said, words = launched(tmp_path, "full_graph.py")
    assert done.returncode == 0 and said["status"] == "done" and "trained" in done.stderr, done.stderr
    assert said["rung"] == {"micro_batch": None} and said["memory"]["run_peak_bytes"] and "isn't turned" in words
    done, said, words = launched(tmp_path, "full_graph.py", "--hidden", "60000", memory="200MiB")
    assert done.returncode == 3 and len(said["trials"]) == 1 and "device.memory=" in words, done.stderr
    assert "the micro-batch isn't turned: " in words


def test_where_a_script_halves_its_batch_by_itself_the_ladder_goes_on(tmp_path: Path) -> None:
    done, said, words = launched(tmp_path, "halves_its_batch.py", "--batch-size", "8192", "--width", "4096", memory="180MiB")
    assert done.returncode == 0 and said["status"] == "done", done.stderr
    kinds = [one["verdict"] for one in said["trials"]]
    assert kinds[0] in ("altered", "out_of_memory") and "fits" in kinds and "misread" not in said, words
    assert said["same_training"]["verdict"] == "same", words
    assert said["effective_batch"] == 8192
    assert said["rung"]["micro_batch"] * said["accumulation"] == 8192


def test_what_the_first_trial_shows_makes_the_ladder_and_stays_a_trial_of_it(tmp_path: Path) -> None:
    script = str(SCRIPTS / "batch_in_source.py")
    said = answer(autofit("run", "--fit-only", "--json", "device=cpu", "device.memory=1GiB", "--", sys.executable, script, cwd=tmp_path))
    assert said["status"] == "done" and len(said["trials"]) == 1 and "misread" not in said
    assert (said["rung"]["micro_batch"], said["accumulation"], said["effective_batch"]) == (64, 1, 64)
    recipe = yaml.safe_load((Path(said["run_dir"]) / "recipe.yaml").read_text())
    assert recipe["trainer"]["args"]["spelled"] == {"micro_batch": "loader:batch_in_source.py:18", "accumulation": "outside"}
    assert recipe["ladder"]["order"] == ["micro_batch"]


def test_where_only_another_batch_fits_the_end_says_which_and_launches_nothing(tmp_path: Path) -> None:
    command = ("can_not_be_accumulated.py", "--way", "no_loader", "--width", "8192", "--batch-size", "4096")
    done, said, words = launched(tmp_path, *command, memory="360MiB")
    assert done.returncode == 3 and said["status"] == "no_rung_fits" and said["command"] is None
    assert [trial["verdict"] for trial in said["trials"]] == ["out_of_memory", "altered"]
    (could,) = said["could_fit"]
    assert could["flag"] == "--allow-batch" and could["rung"]["micro_batch"] < 4096
    assert "autofit run --allow-batch -- ..." in words and "is estimated to fit" in words and "for SGD" in words


def weights(place: Path, command: tuple[str, ...], *words: str, memory: str) -> dict[str, Any]:
    """The record of a lower rung's run, whose weights at the end are the plain run's, to rounding; nothing of the person's is changed."""
    plain = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    before = (place / "train.py").read_bytes()
    subprocess.run(command, cwd=place, env=plain, check=True, capture_output=True)
    (place / "weights.pt").rename(place / "plain.pt")
    said = answer(autofit("run", "--json", "device=cpu", f"device.memory={memory}", *words, "--", *command, cwd=place, timeout=580))
    apart = "import torch, json; a, b = torch.load('plain.pt'), torch.load('weights.pt'); " + (
        "print(json.dumps(max(((a[k] - b[k]).norm() / a[k].norm()).item() for k in a)))"
    )
    done = subprocess.run([sys.executable, "-c", apart], cwd=place, check=True, capture_output=True)
    assert json.loads(done.stdout) < 1e-4 and (place / "train.py").read_bytes() == before
    assert said["status"] == "done" and said["effective_batch"] == said["effective_batch_asked"]
    assert said["same_training"]["gradient"] == "proven"
    return said


def test_a_script_with_its_settings_in_a_dict_trains_the_same_in_less_memory(tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / "hf_settings_in_code.py", tmp_path / "train.py")
    said = weights(tmp_path, (sys.executable, "train.py"), memory="312MiB")
    assert said["effective_batch"] == 32 and said["rung"]["micro_batch"] < 32 and said["steps"]["made"] == 6


@pytest.mark.parametrize(("script", "named", "words"), [
    ("whole_batch_flags", (), ("--device-batch-size=16",)), ("whole_batch_constants", ("--set", "B"), ()),
])  # fmt: skip
def test_a_script_that_takes_its_whole_batch_in_parts_keeps_its_step(
    script: str, named: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    """As karpathy's do: one value is turned."""
    shutil.copy(SCRIPTS / f"{script}.py", tmp_path / "train.py")
    shutil.copy(SCRIPTS / "whole_batch.py", tmp_path)
    said = weights(tmp_path, (sys.executable, "train.py", *words), *named, memory="113MiB")
    tried = [(trial["rung"]["micro_batch"] * trial["accumulation"], trial["verdict"]) for trial in said["trials"]]
    assert {whole for whole, _ in tried} == {64} and tried[0][1] == "out_of_memory" and said["effective_batch"] == 64, tried
