"""The last weights of a training that a benchmark has played."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def last(run: Path, kind: str, *, file: str) -> dict[str, Any]:
    """Name -> tensor, of floating point, of the run in ``run``. ``kind``: "text", "yolo", else a script's own, in ``file``: a checkpoint by
    torch.save, or safetensors. Raises whatever a file that isn't there raises.
    """
    import torch
    from safetensors.torch import load_file

    if kind == "text":
        found = load_file(run / "model.safetensors")
    elif kind == "yolo":
        kept = torch.load(run / "weights" / "last.pt", weights_only=False)
        found = (kept["ema"] or kept["model"]).float().state_dict()
    else:
        found = load_file(run / file) if file.endswith(".safetensors") else torch.load(run / file)["model"]
    return {name: value for name, value in found.items() if value.is_floating_point()}
