"""Acts on modules as soon as they have been imported, and at once on those that are there already."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

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


def taken(modules: Iterable[str]) -> Callable[[], None]:
    """Finds which modules hold functions of ``modules``, by whatever name. Returns a function that gives each of them what has replaced one
    of these functions since. That looks for nothing: in a fork, each object that is looked at is a copy."""
    those = [getattr(sys.modules.get(name), "__dict__", {}) for name in modules]
    own = [(names, name, one) for names in those for name, one in names.items() if callable(one)]
    known = {id(one) for *_, one in own}
    holders = [(at, name) for at in [*sys.modules.values()] for name, one in [*getattr(at, "__dict__", {}).items()] if id(one) in known]

    def put() -> None:
        now = {id(one): names[name] for names, name, one in own if names[name] is not one}
        for at, name in holders if now else ():
            if (one := id(getattr(at, name, None))) in now:
                setattr(at, name, now[one])

    return put


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing by itself: asks the others, and has the loader of a module that is waited for act at its end."""

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
        load = spec.loader.exec_module

        def loaded(module: ModuleType) -> None:
            load(module)
            hook = self._hooks.pop(name, None)
            if hook is not None:  # a reload has none any more
                hook(module)

        spec.loader.exec_module = loaded  # type: ignore[method-assign]  # asking for a spec imports nothing: libraries look whether others are there
        return spec
