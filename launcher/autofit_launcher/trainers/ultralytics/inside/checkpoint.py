"""Looks at Ultralytics checkpoints. In a process of its own: it loads them, and they hold whole models, which ``weights_only`` refuses.

python -m autofit_launcher.trainers.ultralytics.inside.checkpoint A.pt B.pt ...
    one line of JSON: for each path what it holds, or null where it can't be loaded (torn, corrupt, no training checkpoint)
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch


def read(path: str) -> dict[str, Any] | None:
    """Epochs done and asked, whether training state is there, whether the weights are finite.

    None where it isn't whole."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=False)
        model = found["ema"] if found.get("ema") is not None else found["model"]
        return {
            "done": found.get("epoch", -1) + 1,
            "epochs": found["train_args"].get("epochs"),
            "trains": found.get("optimizer") is not None and found.get("epoch", -1) >= 0,
            "finite": all(bool(torch.isfinite(one).all()) for one in model.state_dict().values() if one.is_floating_point()),
        }
    except Exception as error:  # whatever a torn pickle raises
        print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    print(json.dumps([read(path) for path in sys.argv[1:]]))
