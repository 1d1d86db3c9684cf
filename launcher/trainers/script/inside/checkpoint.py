"""Looks at the weights in checkpoints of somebody's script, newest first. In a process of its own, run by the script's own interpreter.

    python checkpoint.py A.pt B.pt ...

One line of JSON: for each path whether its weights are finite, null where that isn't known (no PyTorch file) or wasn't looked at: behind
the first whose weights are finite nothing is, since what is older was trained on to them. Needs torch, and nothing of autofit.

Nothing that a file names is called except PyTorch's own builders of tensors; every other object is read as a bag of its parts.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

FILES = (".pt", ".pth", ".bin", ".ckpt", ".tar", ".safetensors")
MOST_DEEP = 50
_OF_MODULES = frozenset({"_parameters", "_buffers"})
"""Where ``torch.nn.Module`` keeps its tensors."""
_BUILDERS = {
    "torch._utils": re.compile(r"_rebuild_(tensor|tensor_v2|tensor_v3|parameter|parameter_with_state)"),
    "torch": re.compile(r"Size|device|[A-Za-z]*Storage"),
    "collections": re.compile("OrderedDict"),
}


class _Bag:
    """Stands for an object of any other class."""

    parts: list[Any]

    def __new__(cls, *_: Any, **__: Any) -> _Bag:
        bag = object.__new__(cls)
        bag.parts = []
        return bag

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.parts.append(state)

    def __setitem__(self, _: Any, value: Any) -> None:
        self.parts.append(value)

    def append(self, value: Any) -> None:
        self.parts.append(value)

    def extend(self, values: Any) -> None:
        self.parts.extend(values)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        builds = module in _BUILDERS and _BUILDERS[module].fullmatch(name)
        kind = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        return super().find_class(module, name) if builds or kind else _Bag


def finite(path: Path) -> bool | None:
    """Whether the weights in a file, or in those of a folder, are finite; None where no weights are found in it."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    found = [_all_finite(weights) for file in files if file.suffix in FILES for weights in _weights(_loaded(file))]
    return all(found) if found else None


def _loaded(file: Path) -> Any:
    """What is in a file; nothing where it can't be read."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        reader = types.ModuleType("reader")
        vars(reader).update(Unpickler=_Unpickler, load=lambda source, **how: _Unpickler(source, **how).load())
        return torch.load(file, map_location="cpu", pickle_module=reader, weights_only=False)
    except Exception as error:  # whatever a file of somebody's raises: nothing is known of it then
        print(f"{file}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def _weights(found: Any, depth: int = 0) -> Iterator[Sequence[torch.Tensor]]:
    """The groups of tensors that are a model's, or its optimizer's: one that holds a matrix, or what a module that was saved whole calls
    its own. A list of past losses is none."""
    mapping = found if isinstance(found, Mapping) else {}
    parts = [*mapping.values()] if mapping else found.parts if isinstance(found, _Bag) else found
    if not isinstance(parts, (list, tuple)) or depth > MOST_DEEP:
        return
    if any(tensor.dim() >= 2 for tensor in _tensors(parts)):
        yield _tensors(parts)
    for name in _OF_MODULES & mapping.keys():
        yield _tensors(mapping[name].values() if isinstance(mapping[name], Mapping) else ())
    for part in parts:
        yield from _weights(part, depth + 1)


def _tensors(parts: Iterable[Any]) -> list[torch.Tensor]:
    return [part for part in parts if isinstance(part, torch.Tensor) and part.is_floating_point() and not part.is_sparse]


def _all_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """No NaN, and no infinity but the negative one, which masks are made of."""
    return not any(bool(tensor.isnan().any()) or (tensor.numel() > 1 and bool(tensor.isposinf().any())) for tensor in tensors)


def main(argv: Sequence[str]) -> int:
    looked: list[bool | None] = []
    for path in argv:
        looked.append(None if True in looked else finite(Path(path)))
    print(json.dumps(looked))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
