"""One version that isn't the pinned one, on every run of the tests: a lower rung of it is really tried.

Only the package is another (``PYTHONPATH`` puts it before the installed one); torch and the rest stay. `make versions` has whole
environments. Needs a package index; says so where there is none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import write_yolo_dataset
from tests.helpers.places import ROOT

OTHER = "8.3.200"
RECIPE = {
    "ask": {"model": "yolov8n.yaml", "micro_batch": 8, "accumulation": 1, "image_size": 160, "checkpointing": False},
    "trainer": {"args": {"epochs": 1, "warmup_epochs": 1.0, "optimizer": "AdamW", "plots": False}},
    "ladder": {"order": ["micro_batch"], "wheels": {"micro_batch": {"floor": 2}}},
    "device": {"kind": "cpu", "memory": "2GiB"},
}


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A folder with that Ultralytics and nothing else."""
    pytest.importorskip("ultralytics")
    site = tmp_path / "site"
    installer = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    done = subprocess.run(
        [*installer, "--no-deps", "--target", str(site), f"ultralytics=={OTHER}"], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode != 0:
        pytest.skip(f"Ultralytics {OTHER} can't be had here: {done.stderr.strip()[-300:]}")
    return site


def test_a_version_that_is_not_the_pinned_one_fits_on_a_lower_rung_with_the_effective_batch_asked_for(other: Path, tmp_path: Path) -> None:
    write_yolo_dataset(tmp_path / "dataset", train=16, val=8, size=160)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "small.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(RECIPE)}", encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(other), str(ROOT)]), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env |= {"YOLO_CONFIG_DIR": str(tmp_path / "home")}
    argv = [sys.executable, "-P", "-m", "launcher", "trial", "--json", "recipe=small", "data=dataset/data.yaml", "rung=1"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr

    tried = json.loads(done.stdout)
    assert (tried["verdict"], tried["accumulation"], tried["effective_batch"]) == ("fits", 2, 8)
    assert tried["report"]["observed"]["micro_batch"] == 4 and tried["report"]["optimizer_steps"] >= 2
