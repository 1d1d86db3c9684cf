"""Acts on modules as soon as they have been imported, and at once on those that are there already."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType], None]


def after_import(hooks: dict[str, Hook]) -> None:
    """Calls a hook with its module as soon as that module has been imported; at once where it is there already."""
    waiting = {}
    for name, hook in hooks.items():
        if name in sys.modules:
            hook(sys.modules[name])
        else:
            waiting[name] = hook
    sys.meta_path.insert(0, _Finder(waiting))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing by itself: asks the others, and wraps the loader of a module that is waited for."""

    def __init__(self, hooks: dict[str, Hook]) -> None:
        self._hooks = hooks
        self._busy = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._hooks or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is None or spec.loader is None:
            return None
        # asking for a spec imports nothing: libraries look so whether others are there
        spec.loader = _Loader(spec.loader, name, self._hooks)
        return spec


class _Loader(importlib.abc.Loader):
    """Another loader, with a hook after it."""

    def __init__(self, loader: Any, name: str, hooks: dict[str, Hook]) -> None:
        self._loader, self._name, self._hooks = loader, name, hooks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        hook = self._hooks.pop(self._name, None)
        if hook is not None:  # a reload has none any more
            hook(module)
