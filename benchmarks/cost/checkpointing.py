"""What a graded rung costs and frees: a training step of a YOLO model with all, some and none of its layers checkpointed.

    python -m benchmarks.cost.checkpointing [--out benchmarks/results/graded_checkpointing.json]

Side by side in one process and thread: the shares are played in turn, so that a drifting machine drifts for all. Seconds are the process's
own (``process_time``), medians of ``STEPS``; bytes are those kept for backward, without weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.provenance import commit, machine, versions
from benchmarks.common.rows import ROOT
from launcher.trainers.ultralytics.native import layer_checkpointing

MODELS = ("yolov8n.yaml", "yolov8s.yaml", "yolo11n.yaml", "yolo26n.yaml", "yolov8n-seg.yaml", "yolov8n-pose.yaml")
SHARES = (0.0, 0.3, 0.5, 0.7, 1.0)
IMAGES, SIDE, STEPS = 4, 256, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "graded_checkpointing.json")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measured(model) for model in MODELS]
    told = {"machine": machine(), "versions": versions(), "commit": commit(), "images": IMAGES, "side": SIDE, "rows": rows}
    chosen.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def measured(name: str) -> dict[str, Any]:
    """Of one model: share -> seconds of a step, bytes kept, and samples a second over those of checkpointing all."""
    from ultralytics import YOLO

    model: Any = YOLO(name).model
    model.train()
    images = torch.rand(IMAGES, 3, SIDE, SIDE)
    seconds: dict[float, list[float]] = {share: [] for share in SHARES}
    for _ in range(STEPS + 1):
        for share in SHARES:
            _set(share)
            began = time.process_time()
            _sum(model.predict(images)).backward()
            seconds[share].append(time.process_time() - began)
            model.zero_grad(set_to_none=True)
    median = {share: statistics.median(taken[1:]) for share, taken in seconds.items()}
    kept = {share: _kept(model, images, share) for share in SHARES}
    freed = {share: (kept[0.0] - kept[share]) / (kept[0.0] - kept[1.0]) for share in SHARES}
    row: dict[str, Any] = {"model": name, "seconds": median, "kept_bytes": kept}
    row["of_what_all_frees"] = {share: round(part, 3) for share, part in freed.items()}
    row["samples_a_second_over_all"] = {share: round(median[1.0] / took, 3) for share, took in median.items()}
    print(name, row["of_what_all_frees"], row["samples_a_second_over_all"], flush=True)
    return row


def _set(share: float) -> None:
    if share:
        layer_checkpointing.enable(share)
    else:
        layer_checkpointing.disable()


def _sum(outputs: Any) -> torch.Tensor:
    if isinstance(outputs, torch.Tensor):
        return outputs.float().sum()
    return sum((_sum(one) for one in (outputs.values() if isinstance(outputs, dict) else outputs)), start=torch.zeros(()))


def _kept(model: Any, images: torch.Tensor, share: float) -> int:
    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    _set(share)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = model.predict(images)
    del outputs
    return sum(kept.values())


if __name__ == "__main__":
    main()
