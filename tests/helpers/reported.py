"""A run folder with everything that a report draws: a ladder, trials with their phases, a run that failed once and went on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autofit_launcher.common.sizes import MIB
from autofit_launcher.history import owner
from autofit_launcher.history.run_folder import RunFolder

DEVICE = {
    "kind": "cpu", "name": "a processor", "budget_bytes": 900 * MIB, "cap_bytes": 810 * MIB, "total_bytes": 9000 * MIB, "headroom": 0.1,
}  # fmt: skip
NASTY = "</script><script>alert('x')</script> & \"quoted\""
"""What a trainer may say, and what must not become markup."""


def rung(index: int, micro_batch: int, accumulation: int, image_size: int = 640) -> dict[str, Any]:
    return {"rung_index": index, "rung": {"micro_batch": micro_batch, "image_size": image_size}, "accumulation": accumulation}


LADDER = [rung(0, 8, 1), rung(1, 4, 2), {**rung(2, 2, 4), "ruled_out_by": 1}, rung(3, 8, 1, 320), rung(4, 4, 2, 320)]


def trial(told: dict[str, Any], verdict: str, peak: int, **more: Any) -> dict[str, Any]:
    return {
        **told, "verdict": verdict, "peak_bytes": peak * MIB, "seconds": 12.5, "phase": "done" if verdict == "fits" else "train", **more,
    }  # fmt: skip


def reported(root: Path, name: str = "demo", *, status: str = "done") -> Path:
    """The folder of a launch that tried two rungs in vain, chose the fourth, was resumed once, and is over."""
    folder = RunFolder.create(root, name)
    with owner.owning(folder.path):
        out = {"why": f"out of memory in phase train, asking for 50 MiB (host) {NASTY}"}
        trials = [
            trial(LADDER[0], "out_of_memory", 1100, **out),
            trial(LADDER[1], "out_of_memory", 900, **out),
            trial(LADDER[3], "fits", 560, why="fits"),
        ]
        attempt = {"number": 1, "command": f"yolo train {NASTY}", "ended": "killed", "phase": "train", "evidence": NASTY, **LADDER[3]}
        going_on = {"move": "go_on", "why": "it was killed: the same rung once more"}
        record = {
            "status": status, "recipe": name, "device": DEVICE, "trials": trials, "ladder": LADDER, "chosen_rung_index": 3, **LADDER[3],
            "effective_batch": 8, "given_up": {"image_size": {"asked": 640, "used": 320}}, "command": "yolo train",
            "attempts": [{**attempt, "next": going_on}, {**attempt, "number": 2, "ended": "done"}],
            "environment": {"python": "3.11.7", "torch": "2.15.0", "ultralytics": "8.4.190", "cuda": "13.0", "driver": "580.65.06"},
            "memory": {"trial_peak_bytes": 560 * MIB, "run_peak_bytes": 565 * MIB, "cap_bytes": 810 * MIB, "budget_bytes": 900 * MIB},
        }  # fmt: skip
        folder.replace_json(folder.record, record)
    return folder.path
