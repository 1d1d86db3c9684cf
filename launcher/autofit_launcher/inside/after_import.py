"""Acts on modules as soon as they have been imported, and at once on those that are there already."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
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


@contextlib.contextmanager
def everywhere(modules: Iterable[str]) -> Iterator[None]:
    """Has each function of these modules that is replaced meanwhile replaced in all modules that have taken it by its name. Others aren't
    looked through: of a fork, each object that is looked at is a copy."""
    before = [(names, dict(names)) for module in modules if (names := getattr(sys.modules.get(module), "__dict__", None)) is not None]
    yield
    put = [(name, one, names[name]) for names, were in before for name, one in were.items() if callable(one) and names[name] is not one]
    for module in list(sys.modules.values()) if put else ():
        names = getattr(module, "__dict__", {})
        for name, now in [(name, now) for name, one, now in put if names.get(name) is one]:
            setattr(module, name, now)


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
