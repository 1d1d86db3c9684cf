"""Loads checkpoint folders of transformers' Trainer and says of each what it holds. In a process of its own.

    python -m launcher.trainers.transformers.inside.checkpoint checkpoint-500 checkpoint-1000 ...

One line of JSON: for each folder its steps and whether its weights are finite, or null where one of its files is missing, torn or corrupt.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin")
STATE = ("optimizer.*", "scheduler.pt")
"""Without these a resumed run would begin its optimizer and its schedule anew: another training. FSDP's is ``optimizer.bin``. ZeRO's are
of each rank, as it has a random state; they hold DeepSpeed's objects, and are judged by their checksums (``checkpoint_files``)."""


def look(folder: Path) -> dict[str, Any] | None:
    try:
        state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        parts = list(folder.glob("global_step*/*_optim_states.pt"))
        if parts and len(parts) != len(list(folder.glob("rng_state_*.pth"))):
            raise FileNotFoundError(f"{len(parts)} parts of the optimizer's states in {folder}")
        for name in STATE[1:] if parts else STATE:
            torch.load(next(folder.glob(name), folder / name), map_location="cpu", weights_only=True)
        weights = sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
        if not weights:
            raise FileNotFoundError(f"no weights in {folder}")
        finite = all(bool(torch.isfinite(one).all()) for path in weights for one in _tensors(path) if one.is_floating_point())
        return {"steps": state["global_step"], "max_steps": state["max_steps"], "finite": finite}
    except Exception as error:  # whatever a torn file raises
        print(f"{folder}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def _tensors(path: Path) -> Iterator[Any]:
    if path.suffix == ".bin":
        yield from torch.load(path, map_location="cpu", weights_only=True).values()
        return
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118  # not a mapping
            yield file.get_tensor(name)


def main(argv: Sequence[str]) -> int:
    print(json.dumps([look(Path(path)) for path in argv]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
