"""What a trainer's own logger is told of autofit's choice: read back with W&B, where that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.run import start
from launcher.run.start import WANDB_TAGS

TOLD: start.Facts = {"rung": 3, "micro_batch": 8, "effective_batch": 64, "trial_peak_bytes": 3 << 30, "run_dir": "/a/run"}


def test_the_environment_keeps_what_a_person_had_there() -> None:
    env = start.told(TOLD, {WANDB_TAGS: "mine"})
    assert env[WANDB_TAGS] == "mine,autofit rung 3,autofit micro batch 8,autofit effective batch 64,autofit trial peak 3.0 GiB"
    assert env["AUTOFIT_RUNG"] == "3" and env["AUTOFIT_TRIAL_PEAK_BYTES"] == str(3 << 30)


def test_weights_and_biases_takes_the_tags(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="pip install wandb")
    program = "import json, wandb\nrun = wandb.init(mode='offline', config={'lr': 1})\nprint(json.dumps(run.tags))\nrun.finish()"
    env = {**os.environ, **start.told(TOLD, {}), "WANDB_SILENT": "true"}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=300)
    assert "autofit effective batch 64" in json.loads(done.stdout.splitlines()[-1])
