"""Trials of YOLO in fp16 on a pretended card: the optimizer's states, and a second process that goes on from the checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from launcher.pretended import cards, catalogue
from tests.conftest import write_yolo_dataset
from tests.helpers.pretended import needs_a_pretended_card

# a loss of which gradients overflow at the scale that a scaler begins with
WORDS = (
    "yolo", "detect", "train", "model=yolov8n.yaml", "workers=0", "epochs=2", "optimizer=SGD", "plots=False", "cls=5000",
)  # fmt: skip


@needs_a_pretended_card
def test_a_yolo_trial_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    report, resumed = tried(tmp_path, "imgsz=64", "batch=4", "nbs=4")
    used = {use["phase"]: use["allocated_bytes"] for use in report["uses"]}
    assert 0 < used["resume"] <= max(used.values()), "it has gone on from its checkpoint, too"
    assert "largest_val_input" in resumed["observed"], "it comes to its end"


def tried(place: Path, *words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reports of a trial that fits, and of its process that goes on from the checkpoint."""
    data = write_yolo_dataset(place / "data", train=40, val=4)
    argv = [sys.executable, "-m", "launcher", "run", "--fit-only", "device=cuda", "--", *WORDS, f"data={data}", *words]
    (model,) = catalogue.named(["rtx_3090"])
    with cards.played(cards.Cards(model=model, computed="all")) as environment:
        done = subprocess.run(argv, env=environment, cwd=place, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (trial,) = place.glob("runs/**/trials/000")
    first, second = (json.loads((folder / "report.json").read_text(encoding="utf-8")) for folder in (trial, trial / "resumed"))
    return first, second
