"""A trial in fp16 holds its optimizer's states, though a gradient scaler would skip its first steps; on a pretended card."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from launcher.forecast import gpu_catalogue
from launcher.pretended import cards
from tests.conftest import write_yolo_dataset
from tests.helpers.pretended import needs_a_pretended_card

# a loss of which gradients overflow at the scale that a scaler begins with
WORDS = (
    "yolo",
    "detect",
    "train",
    "model=yolov8n.yaml",
    "imgsz=64",
    "batch=4",
    "workers=0",
    "epochs=2",
    "optimizer=SGD",
    "plots=False",
    "cls=5000",
)


@needs_a_pretended_card
def test_a_yolo_trial_has_its_momenta(tmp_path: Path) -> None:
    data = write_yolo_dataset(tmp_path / "data", train=16, val=4)
    argv = [sys.executable, "-m", "launcher", "run", "--fit-only", "device=cuda", "--", *WORDS, f"data={data}", "nbs=4"]
    (model,) = gpu_catalogue.named(["rtx_3090"])
    with cards.played(cards.Cards(model=model)) as environment:
        done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (told,) = tmp_path.glob("runs/**/trials/000/report.json")
    report = json.loads(told.read_text(encoding="utf-8"))
    parts = report["facts"]["memory_parts"]
    assert parts["states"] >= 0.99 * parts["weights"] > 0
    used = {use["phase"]: use["allocated_bytes"] for use in report["uses"]}
    assert parts["weights"] + parts["states"] < used["resume"] <= max(used.values()), "it has gone on from its checkpoint, too"
