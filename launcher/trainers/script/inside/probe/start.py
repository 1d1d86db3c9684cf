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

from launcher.trainers.script.inside.probe.settings import LOADED, Settings


def install(path: str) -> None:
    """Hooks this process. Called once, before any code of the script."""
    settings = Settings.read(Path(path))
    if not settings.budget_only:
        Path(settings.records, LOADED).touch()
    from launcher.trainers.script.inside.probe.session import Session

    session = Session(settings)
    if settings.overlay:
        from launcher.trainers.script.inside.probe import libraries
        from launcher.trainers.script.inside.probe.overlay import Overlay

        overlay = Overlay(Path(settings.overlay), kept=(Path(settings.overlay).parent, *map(Path, settings.kept)))
        overlay.install()
        after_import(libraries.hooks(overlay, session))
    after_import(
        {
            "torch": lambda module: _torch(session),
            **(
                {}
                if settings.budget_only
                else {
                    "transformers.trainer": lambda module: _trainer("hf", session, module),
                    "lightning.pytorch.trainer.trainer": lambda module: _trainer("lightning", session, module),
                    "pytorch_lightning.trainer.trainer": lambda module: _trainer("lightning", session, module),
                }
            ),
        }
    )
    if not settings.budget_only:
        from launcher.trainers.script.inside.probe import figures

        after_import(figures.hooks(session))
        atexit.register(session.at_exit)
        os.register_at_fork(after_in_child=session.forked)


def _torch(session: Any) -> None:
    from launcher.trainers.script.inside.probe import torch_hooks

    torch_hooks.install(session)
    if session.settings.same:
        from launcher.trainers.script.inside.same.install import install

        install(session.settings.same, Path(session.settings.records))


def _trainer(name: str, session: Any, module: ModuleType) -> None:
    if name == "hf":
        from launcher.trainers.script.inside.probe import transformers as hf

        hf.install(session, module)
    else:
        from launcher.trainers.script.inside.probe import lightning

        lightning.install(session, module)


def after_import(hooks: dict[str, Callable[[ModuleType], None]]) -> None:
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

    def __init__(self, hooks: dict[str, Callable[[ModuleType], None]]) -> None:
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

    def __init__(self, loader: Any, name: str, hooks: dict[str, Callable[[ModuleType], None]]) -> None:
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
        if hook is None:  # a reload
            return
        home = str(Path(__file__).resolve().parents[5])
        ours = home not in sys.path
        if ours:
            sys.path.append(home)  # the script's interpreter may not have autofit installed
        try:
            hook(module)
        finally:
            if ours:
                sys.path.remove(home)
