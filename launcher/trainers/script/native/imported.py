"""Acts as soon as a module has been imported. Beside ``accumulate`` and ``update``, which act on torch; needs the standard library only."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Finder:
    """Finds modules as the others do, and acts when one of those that are waited for is there."""

    def __init__(self, acts: dict[str, Callable[[], None]]) -> None:
        self._acts = acts

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        act = self._acts.pop(name, None)
        if act is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            self._acts[name] = act
            return None
        load = spec.loader.exec_module

        def loaded(module: ModuleType) -> None:
            load(module)
            act()

        spec.loader.exec_module = loaded  # type: ignore[method-assign]
        return spec


def after_import(acts: dict[str, Callable[[], None]]) -> None:
    """Module -> what is done when it has been imported."""
    sys.meta_path.insert(0, _Finder(acts))
