"""Real limits of the machine beside a device: what a trial calls too little kills the run, and what it says fits lives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from autofit_launcher.common.sizes import MIB
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import ROOT

pytestmark = pytest.mark.slow
SCRIPT = ROOT / "tests" / "data" / "scripts" / "loads.py"


def recipe(place: Path, *words: str, workers: int = 4) -> None:
    args = {
        "command": [sys.executable, str(SCRIPT), *words],
        "spelled": {"micro_batch": "--batch-size", "workers": "--workers", "accumulation": "outside"},
    }
    told = {
        "ask": {"micro_batch": 16, "workers": workers},
        "trainer": {"adapter": "script", "args": args},
        "ladder": {"order": ["workers", "micro_batch"], "wheels": {"workers": {"values": [2, 1, 0]}}},
        "device": {"kind": "cpu", "memory": "1GiB"},
        "recover": {"restarts": 0},
    }
    (place / "recipes").mkdir()
    (place / "recipes" / "loads.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(told)}", encoding="utf-8")


def small_shm(size: str) -> Sequence[str]:
    """Words before a command that give it a small /dev/shm, in a mount namespace of its own."""
    mounts = f'mount --make-rprivate / && mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    words = ("unshare", "-m", "sh", "-c", mounts, "sh")
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root may give a command a /dev/shm of its own")
    return words


def plainly(before: Sequence[str], *words: str) -> str:
    """The complaints of a run without autofit, which has a minute for what takes seconds."""
    argv = ["timeout", "60", *before, sys.executable, str(SCRIPT), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def launched(place: Path, before: Sequence[str], *words: str) -> dict[str, Any]:
    done = autofit("train", "recipe=loads", "--json", *words, cwd=place, timeout=500, before=before)
    assert done.returncode == 0, done.stderr[-3000:]
    return answer(done)


def failures(said: dict[str, Any]) -> list[tuple[int, str]]:
    return [(one["rung"]["workers"], one["source"]) for one in said["trials"] if one["verdict"] == "out_of_memory"]


def room(said: dict[str, Any], name: str) -> dict[str, Any]:
    chosen = next(one for one in said["trials"] if one["rung_index"] == said["chosen_rung_index"])
    found: dict[str, Any] = next(one for one in chosen["rooms"] if one["name"] == name)
    return found


def test_a_small_dev_shm_costs_workers_and_no_batch(tmp_path: Path) -> None:
    """A batch of 16 x 3 x 320 x 320 floats is 19 MiB: four workers hold ten on their way, two six, one four."""
    words = ("--size", "320", "--pause", "0.3")
    assert "shared memory" in plainly(small_shm("64m"), *words, "--workers", "4"), "it hangs"
    recipe(tmp_path, *words)
    said = launched(tmp_path, small_shm("100m"))
    assert failures(said)[0] == (4, "shared_memory") or failures(said)[0] == (4, "workers")
    assert said["rung"] == {"workers": 1, "micro_batch": 16} and said["status"] == "done"
    assert 70 * MIB < room(said, "/dev/shm")["needed"] < 90 * MIB < 99 * MIB < room(said, "/dev/shm")["there"] <= 100 * MIB


GATHERS = (sys.executable, str(ROOT / "tests" / "data" / "scripts" / "gathers.py"), "--batch-size", "64", "--width", "16384")
WHOLE = 2506 * 16384 * 4
"""Bytes of a whole validation's scores, which are there once more as they are joined; a trial cuts it after some of its 40 batches."""


def test_what_a_script_gathers_and_joins_is_no_false_fit_where_its_trial_has_cut_the_pass(tmp_path: Path) -> None:
    """Counted once they would fit at 300 MiB, and the run would need more than all of that."""
    words = ("run", "--json", "device=cpu", "ladder.wheels.micro_batch.floor=32")
    refused = autofit(*words, "--fit-only", "device.memory=300MiB", "--", *GATHERS, cwd=tmp_path)
    tried = answer(refused)["trials"]
    assert refused.returncode == 3 and {one["verdict"] for one in tried} == {"out_of_memory"}, refused.stderr
    assert all(one["phase"] == "validate" and one["peak_bytes"] - WHOLE > WHOLE for one in tried), tried
    done = autofit(*words, "device.memory=520MiB", "--", *GATHERS, cwd=tmp_path, timeout=500)
    said = answer(done)
    assert (done.returncode, said["status"], said["rung_index"]) == (0, "done", 0), done.stderr
    run, trial = said["memory"]["run_peak_bytes"], said["memory"]["trial_peak_bytes"]
    assert 300 * MIB < run <= 1.05 * trial
