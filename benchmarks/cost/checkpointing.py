"""What a graded rung costs and frees: a training step of a YOLO or a Llama with all, some and none of its layers checkpointed.

    python -m benchmarks.cost.checkpointing [--out benchmarks/results/graded_checkpointing.json]

Side by side in one process and thread: the shares are played in turn, so that a drifting machine drifts for all. Seconds are the process's
own (``process_time``), medians of ``STEPS``; bytes are those kept for backward, without weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.provenance import commit, machine, versions
from benchmarks.common.rows import ROOT
from launcher.trainers.transformers.native import hf_run
from launcher.trainers.ultralytics.native import layer_checkpointing

YOLO_MODELS = ("yolov8n.yaml", "yolov8s.yaml", "yolo11n.yaml", "yolo26n.yaml", "yolov8n-seg.yaml", "yolov8n-pose.yaml")
SHARES = (0.0, 0.3, 0.5, 0.7, 1.0)
IMAGES, SIDE, STEPS = 4, 256, 5


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    model: Any
    loss: Callable[[], Any]
    """Of one training batch."""
    switch: Callable[[float], None]
    """Checkpoints this share of its layers from here on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "graded_checkpointing.json")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows = [*(measured(yolo(name)) for name in YOLO_MODELS), measured(llama(4)), measured(llama(12))]
    told = {"machine": machine(), "versions": versions(), "commit": commit(), "images": IMAGES, "side": SIDE, "rows": rows}
    chosen.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def yolo(name: str) -> Subject:
    from ultralytics import YOLO

    model: Any = YOLO(name).model
    images = torch.rand(IMAGES, 3, SIDE, SIDE)

    def switch(share: float) -> None:
        if share:
            layer_checkpointing.enable(share)
        else:
            layer_checkpointing.disable()

    return Subject(name, model.train(), lambda: _sum(model.predict(images)), switch)


def llama(layers: int) -> Subject:
    import transformers

    sizes = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": layers, "num_attention_heads": 8, "vocab_size": 1024}
    model: Any = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes)).train()
    tokens = torch.randint(0, 1024, (IMAGES, SIDE))

    def switch(share: float) -> None:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        if share:
            hf_run.keep_first(model, share)
        else:
            model.gradient_checkpointing_disable()

    return Subject(f"Llama of {layers} layers", model, lambda: model(input_ids=tokens, labels=tokens, use_cache=False).loss, switch)


def measured(one: Subject) -> dict[str, Any]:
    """Of one model: share -> seconds of a step, bytes kept, and samples a second over those of checkpointing all."""
    seconds: dict[float, list[float]] = {share: [] for share in SHARES}
    for _ in range(STEPS + 1):
        for share in SHARES:
            one.switch(share)
            began = time.process_time()
            one.loss().backward()
            seconds[share].append(time.process_time() - began)
            one.model.zero_grad(set_to_none=True)
    median = {share: statistics.median(taken[1:]) for share, taken in seconds.items()}
    kept = {share: _kept(one, share) for share in SHARES}
    freed = {share: (kept[0.0] - kept[share]) / (kept[0.0] - kept[1.0]) for share in SHARES}
    row: dict[str, Any] = {"model": one.name, "seconds": median, "kept_bytes": kept}
    row["of_what_all_frees"] = {share: round(part, 3) for share, part in freed.items()}
    row["samples_a_second_over_all"] = {share: round(median[1.0] / took, 3) for share, took in median.items()}
    print(one.name, row["of_what_all_frees"], row["samples_a_second_over_all"], flush=True)
    return row


def _sum(outputs: Any) -> torch.Tensor:
    if isinstance(outputs, torch.Tensor):
        return outputs.float().sum()
    return sum((_sum(one) for one in (outputs.values() if isinstance(outputs, dict) else outputs)), start=torch.zeros(()))


def _kept(one: Subject, share: float) -> int:
    weights = {weight.untyped_storage().data_ptr() for weight in one.model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    one.switch(share)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = one.loss()
    del loss
    return sum(kept.values())


if __name__ == "__main__":
    main()
