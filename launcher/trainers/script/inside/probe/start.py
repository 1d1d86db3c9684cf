"""Takes the settings' path; leaves hooks in this process that act when torch, transformers or Lightning are imported."""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..same import install as same
from . import figures, libraries, lightning, torch_hooks
from . import transformers as hf
from .overlay import Overlay
from .session import Session
from .settings import LOADED, Settings

Hook = Callable[[ModuleType], None]


def install(path: str) -> None:
    """Hooks this process. Called once, before any code of the script."""
    settings = Settings.read(Path(path))
    if not settings.budget_only:
        Path(settings.records, LOADED).touch()
    session = Session(settings)
    if settings.overlay:
        overlay = Overlay(Path(settings.overlay), kept=(Path(settings.overlay).parent, *map(Path, settings.kept)))
        overlay.install()
        after_import(libraries.hooks(overlay, session))
    after_import({"torch": lambda module: _torch(session)})
    if settings.same:
        after_import(same.libraries())
    if not settings.budget_only:
        after_import(_trainers(session))
        after_import(figures.hooks(session))
        atexit.register(session.at_exit)
        os.register_at_fork(after_in_child=session.forked)


def _torch(session: Session) -> None:
    torch_hooks.install(session)
    if session.settings.same:
        same.install(session.settings.same, Path(session.settings.records))


def _trainers(session: Session) -> dict[str, Hook]:
    hooked = _where_there_is("Callback", lambda module: lightning.install(session, module))
    return {
        "transformers.trainer": _where_there_is("TrainerCallback", lambda module: hf.install(session, module)),
        "lightning.pytorch.trainer.trainer": hooked,
        "pytorch_lightning.trainer.trainer": hooked,
    }


def _where_there_is(name: str, hook: Hook) -> Hook:
    """A person's own module may have a library's name: it is left alone."""
    return lambda module: hook(module) if hasattr(module, name) else None


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
        spec.loader = _Loader(
            spec.loader, name, self._hooks
        )  # asking for a spec imports nothing: libraries look so whether others are there
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
