"""The recipe of tests/data/scripts/resumable.py, a person's training that says how it goes on."""

from __future__ import annotations

import sys
from typing import Any


def recipe(*words: str) -> dict[str, Any]:
    """``words``: of its command, beside those that the recipe spells."""
    return {
        "ask": {"micro_batch": 16, "accumulation": 1},
        "trainer": {
            "adapter": "script",
            "args": {
                "command": [sys.executable, "train.py", *words],
                "spelled": {"micro_batch": "--batch-size", "accumulation": "--accum"},
                "set": {"--out": "{run}"},
                "resume": {"words": "--resume {checkpoint}", "newest": "{run}/epoch*.pt"},
            },
        },
        "ladder": {"order": ["micro_batch"], "wheels": {"micro_batch": {"values": [8, 4]}}},
        "device": {"kind": "cpu", "memory": "1GiB"},
    }
