"""Looks at Ultralytics checkpoints, or writes a copy of one that goes on at another rung. In a process of its own: it loads them.

python -m launcher.trainers.ultralytics.inside.checkpoint look A.pt B.pt ...
    one line of JSON: for each path what it holds, or null where it can't be loaded (torn, corrupt, no training checkpoint)
python -m launcher.trainers.ultralytics.inside.checkpoint copy FROM.pt TO.pt '{"batch": 4, "nbs": 16}'
    the same checkpoint with these training arguments; Ultralytics takes most of them from nowhere else when it resumes
    (``BaseTrainer.check_resume``, engine/trainer.py of 8.4.190)
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch


def load(path: str) -> dict[str, Any]:
    """The checkpoint's dictionary. Raises whatever loading a file that is none raises."""
    found = torch.load(path, map_location="cpu", weights_only=False)
    if not isinstance(found, dict) or "train_args" not in found:
        raise ValueError(f"{path} is no training checkpoint of Ultralytics")
    return found


def look(path: str) -> dict[str, Any] | None:
    """Epochs done and asked, whether training state is there, whether the weights are finite, whether its epoch was the best so far.

    None where it isn't whole."""
    try:
        found = load(path)
        model = found["ema"] if found.get("ema") is not None else found["model"]
        fitness = found.get("best_fitness")
        return {
            "best": fitness is not None and bool(fitness == (found.get("train_metrics") or {}).get("fitness")),
            "done": found.get("epoch", -1) + 1,
            "epochs": found["train_args"].get("epochs"),
            "trains": found.get("optimizer") is not None and found.get("epoch", -1) >= 0,
            "finite": all(bool(torch.isfinite(one).all()) for one in model.state_dict().values() if one.is_floating_point()),
        }
    except Exception as error:  # whatever a torn pickle raises
        print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def copy(source: str, target: str, args: dict[str, Any]) -> None:
    """Written beside and renamed: whole or not at all."""
    found = load(source)
    found["train_args"] = {**found["train_args"], **args}
    beside = Path(target).with_suffix(".part")
    torch.save(found, beside)
    os.replace(beside, target)


def main(argv: Sequence[str]) -> int:
    verb, *words = argv
    if verb == "look":
        print(json.dumps([look(path) for path in words]))
        return 0
    copy(words[0], words[1], json.loads(words[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
