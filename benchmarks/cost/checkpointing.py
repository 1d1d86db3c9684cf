"""What a graded rung costs and frees: a training step of a script's model with all, some and none of its layers checkpointed from outside.

    python -m benchmarks.cost.checkpointing [--out benchmarks/results/graded_checkpointing.json]

Side by side in one process and thread: the shares are played in turn, so that a drifting machine drifts for all. Seconds are the process's
own (``process_time``), medians of ``STEPS``; bytes are those kept for backward, without weights.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint

from benchmarks.common.provenance import commit, machine, versions
from benchmarks.common.rows import ROOT
from launcher.trainers.script.native import checkpointing

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
    rows = [measured(one()) for one in (encoder, residual, unet, separator)]
    told = {"machine": machine(), "versions": versions(), "commit": commit(), "rows": rows}
    chosen.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


_PLAIN = torch.nn.Module.__call__


def _from_outside(share: float) -> None:
    torch.nn.Module.__call__ = _PLAIN  # type: ignore[method-assign]
    if share:
        checkpointing.Checkpointing(share).install()


def _script(name: str, model: Any, inputs: torch.Tensor) -> Subject:
    return Subject(name, model.train(), lambda: _sum(model(inputs)), _from_outside)


def encoder() -> Subject:
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.1, batch_first=True)
    return _script("nn.TransformerEncoder of 12 layers", torch.nn.TransformerEncoder(layer, 12), torch.randn(IMAGES, SIDE, 256))


def residual() -> Subject:
    import torchvision

    return _script("ResNet-50 (torchvision)", torchvision.models.resnet50(num_classes=10), torch.rand(IMAGES, 3, 128, 128))


def unet() -> Subject:
    """Four levels down and up, two convolutions each, as most scripts have it."""
    from torch import nn

    def two(inside: int, outside: int) -> nn.Module:
        layers = [(nn.Conv2d(one, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU()) for one in (inside, outside)]
        return nn.Sequential(*(part for layer in layers for part in layer))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (3, 16, 32, 64, 128)
            self.downs = nn.ModuleList(two(*pair) for pair in itertools.pairwise(sizes))
            self.ups = nn.ModuleList(two(large + small, small) for small, large in reversed([*itertools.pairwise(sizes[1:])]))
            self.leave = nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for number, down in enumerate(self.downs):
                x = down(x if not number else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            kept.pop()
            for up in self.ups:
                x = up(torch.cat([nn.functional.interpolate(x, scale_factor=2), kept.pop()], dim=1))
            return self.leave(x)

    return _script("a U-Net of four levels", UNet(), torch.rand(IMAGES, 3, 128, 128))


def separator() -> Subject:
    """That of examples/separator, its own word for checkpointing off."""
    import sys

    sys.path.insert(0, str(ROOT / "examples" / "separator" / "training"))
    from model import Separator  # type: ignore[import-not-found]

    sizes = {"stems": 4, "n_fft": 512, "hop": 128, "bands": 8, "layers": 6, "width": 48, "heads": 4, "ffn": [96]}
    return _script("the separator of examples/, 6 blocks", Separator(**sizes, checkpointing=False), torch.randn(2, 12032))


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
