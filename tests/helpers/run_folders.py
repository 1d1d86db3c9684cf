"""Run folders as launches leave them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from autofit_launcher.history import owner
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.series import Series

MIB = 2**20
DEVICE = {"kind": "cpu", "index": 0, "name": "a processor", "budget_bytes": 900 * MIB, "cap_bytes": 810 * MIB}
RUNG = {"micro_batch": 4, "image_size": 160, "checkpointing": False}


def tell(folder: RunFolder, *, status: str, **more: Any) -> None:
    """What a launch at that point has written."""
    rung = {"rung_index": 1, "rung": RUNG, "accumulation": 2}
    known: dict[str, Any] = {"trying": rung}
    if status != "trying":
        known = {**rung, "trials": [{**rung, "verdict": "fits", "peak_bytes": 400 * MIB}], "attempts": [{"rung_index": 1, "began": 100.0}]}
    if status != "trying" and not folder.series.exists():
        line = {"used_bytes": 300 * MIB, "epochs": 6, "steps": 30, "phase": "train"}
        for second in range(11):
            now = {"at": time.time() + second - 10, "peak_bytes": 410 * MIB - second, "epoch": 2, "step": second, "loss": 9.5 - second}
            Series(folder.series).add({**line, **now, "done": (1 + second / 30) / 6})
    said = {"status": status, "recipe": "demo", "device": DEVICE, "began": time.time(), **known, **more}
    folder.replace_json(folder.record, said)


def ended(root: Path, status: str, **more: Any) -> Path:
    """The folder of a launch that is over."""
    folder = RunFolder.create(root, "demo")
    with owner.owning(folder.path):
        tell(folder, status=status, **more)
    return folder.path
