"""Acts after an import or a method, and gives gradients another weight. Beside what acts in a script's processes."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Finder:
    """Finds modules as the others do, and acts when one of those that are waited for is there."""

    def __init__(self, acts: dict[str, Callable[[Any], None]]) -> None:
        self._acts = acts
        self._looking: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        """Finds modules that are waited for. Libraries that only ask whether one is there, before they import it, take nothing away."""
        if name not in self._acts or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def loaded(module: ModuleType) -> None:
            load(module)
            if (act := self._acts.pop(name, None)) is not None:
                act(module)

        spec.loader.exec_module = loaded  # type: ignore[method-assign]
        return spec


def after_import(acts: dict[str, Callable[[Any], None]]) -> None:
    """Module -> what is done with it when it has been imported; at once where it is there (in a process forked behind its imports)."""
    for name in [name for name in acts if name in sys.modules]:
        acts.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, _Finder(acts))


def followed(method: Callable[..., Any], act: Callable[[Any], None]) -> Callable[..., Any]:
    """The method, and then ``act`` on whose method it is."""

    @functools.wraps(method)
    def done(this: Any, *args: Any, **kwargs: Any) -> None:
        method(this, *args, **kwargs)
        act(this)

    return done


def weighted(tensors: Any, given: Any, scale: float) -> Any:
    """Gradients of the roots of a backward pass, so that all that comes of it is multiplied by ``scale``."""
    import torch

    roots: Sequence[Any] = tuple(tensors) if isinstance(tensors, (list, tuple)) else (tensors,)
    given = (None,) * len(roots) if given is None else tuple(given) if isinstance(given, (list, tuple)) else (given,)
    if scale == 1.0 or any(one is None and root.numel() != 1 for one, root in zip(given, roots, strict=False)):
        return None if all(one is None for one in given) else given  # torch says what is wrong with a root that is no number
    return tuple(torch.full_like(root, scale) if one is None else one * scale for one, root in zip(given, roots, strict=True))
