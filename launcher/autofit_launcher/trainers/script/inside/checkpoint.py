"""Looks at the weights in checkpoints of somebody's script, newest first. In a process of its own, run by the script's own interpreter.

    python checkpoint.py A.pt B.pt ...

One line of JSON: for each path whether its weights are finite, null where that isn't known (no PyTorch file) or wasn't looked at: behind
the first whose weights are finite nothing is, since what is older was trained on to them. Needs torch, and nothing of autofit.

Files are read as PyTorch reads what it trusts nobody with (``weights_only``), so that nothing that they name is called. A model that was
pickled whole isn't known.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

FILES = (".pt", ".pth", ".bin", ".ckpt", ".tar", ".safetensors")
MOST_DEEP = 50


def finite(path: Path) -> bool | None:
    """Tells whether the weights in a file, or in those of a folder, are finite; None where no weights are found in it."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    found = [_all_finite(tensor) for file in files if file.suffix in FILES for tensor in _weights(_loaded(file))]
    return all(found) if found else None


def _loaded(file: Path) -> Any:
    """Loads a file; returns None where it can't be read."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        with torch.serialization.safe_globals([argparse.Namespace, *_of_numpy()]):
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a file of somebody's raises: nothing is known of it then
        print(f"{file}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def _of_numpy() -> list[Any]:
    """Lists what a number of NumPy's is made of: scripts save their best metric as one."""
    if (numpy := sys.modules.get("numpy")) is None:  # which torch has imported, where it is installed
        return []
    kinds = [type(numpy.dtype(name)) for name in ("float64", "float32", "int64")]
    return [numpy.dtype, *kinds, numpy.float64(0).__reduce__()[0]]


def _weights(found: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors of groups that are a model's, or its optimizer's: those with a matrix. A list of past losses is none."""
    parts = [*found.values()] if isinstance(found, Mapping) else found if isinstance(found, (list, tuple)) else ()
    tensors = [part for part in parts if isinstance(part, torch.Tensor) and part.is_floating_point() and not part.is_sparse]
    yield from tensors if any(tensor.dim() >= 2 for tensor in tensors) else ()
    for part in parts if depth < MOST_DEEP else ():
        yield from _weights(part, depth + 1)


def _all_finite(tensor: torch.Tensor) -> bool:
    """Tells whether a tensor holds no NaN, and no infinity but the negative one, which masks are made of."""
    return not bool(tensor.isnan().any() or (tensor.numel() > 1 and tensor.isposinf().any()))


def main(argv: Sequence[str]) -> None:
    looked: list[bool | None] = []
    for path in argv:
        looked.append(None if True in looked else finite(Path(path)))
    print(json.dumps(looked))


if __name__ == "__main__":
    main(sys.argv[1:])
