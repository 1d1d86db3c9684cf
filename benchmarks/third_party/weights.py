"""Two files of weights -> how far they lie apart. Run by the script's own Python, in its folder, whose classes a file may need.

    python weights.py PLAIN OTHER        {"apart": 2e-7, "tensors": 38}

``apart``: length of the difference over that of the plain run's weights.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def held(path: Path) -> dict[str, Any]:
    """Name -> tensor, of the model alone where the file has more in it."""
    import torch

    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    found = torch.load(path, map_location="cpu", weights_only=False)
    found = found.state_dict() if isinstance(found, torch.nn.Module) else found
    for key in ("state_dict", "model_state_dict", "model"):
        found = found[key] if isinstance(found.get(key), Mapping) else found
    return {name: one for name, one in found.items() if isinstance(one, torch.Tensor)}


def apart(plain: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Infinite where they are of other shapes."""
    pairs = [(plain[name].double(), other[name].double()) for name in plain if plain[name].is_floating_point() and name in other]
    if plain.keys() != other.keys() or any(a.shape != b.shape for a, b in pairs):
        return float("inf")
    distance, length = (sum(float((one**2).sum()) for one in every) for every in ((a - b for a, b in pairs), (a for a, _ in pairs)))
    return float((distance / length) ** 0.5) if length else 0.0


def main() -> None:
    sys.path.insert(0, os.getcwd())
    plain, other = held(Path(sys.argv[1])), held(Path(sys.argv[2]))
    print(json.dumps({"apart": apart(plain, other), "tensors": len(plain)}))


if __name__ == "__main__":
    main()
