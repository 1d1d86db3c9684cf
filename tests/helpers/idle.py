"""A launch that is at work until it is ended: its script sleeps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

SAID = {
    "ask": {"micro_batch": 8},
    "trainer": {"adapter": "script", "args": {"command": [sys.executable, "idle.py"], "spelled": {"micro_batch": "--batch"}}},
    "ladder": {"order": ["micro_batch"], "wheels": {"micro_batch": {"floor": 8}}},
    "device": {"kind": "cpu", "memory": "1GiB"},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A person's folder with the script and its recipe, ``idle``."""
    (tmp_path / "idle.py").write_text("import time\ntime.sleep(600)\n")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "idle.yaml").write_text(yaml.safe_dump(SAID))
    return tmp_path
