"""A launch that is at work until it is ended: its script sleeps."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

SAID = {
    "ask": {"micro_batch": 8},
    "trainer": {"adapter": "script", "args": {"command": [sys.executable, "idle.py"], "spelled": {"micro_batch": "--batch"}}},
    "ladder": {"order": ["micro_batch"], "wheels": {"micro_batch": {"floor": 8}}},
    "device": {"kind": "cpu", "memory": "1GiB"},
}


def laid(place: Path) -> Path:
    """Lays the script and its recipe, ``idle``, into a person's folder."""
    (place / "idle.py").write_text("import time\ntime.sleep(600)\n")
    (place / "recipes").mkdir()
    (place / "recipes" / "idle.yaml").write_text(yaml.safe_dump(SAID))
    return place
