"""Takes the settings' path; leaves hooks in this process that act when torch, transformers or Lightning are imported."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..common.orders import LOADED, VARIABLE, ProbeSettings
from . import forks, gate, overlaid_libraries, patches
from .after_import import Hook, after_import, taken
from .instrument import Instrument
from .overlay import Overlay
from .same import twin

_TRAINERS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "trainers")
HOOKS = [
    importlib.import_module(f"..trainers.{name}.inside.hooks", __package__)
    for name in sorted(os.listdir(_TRAINERS))
    if os.path.exists(os.path.join(_TRAINERS, name, "inside", "hooks.py"))
]
"""Hooks of each trainer for the instrument: imported with us, since a program may have modules of the library's names."""
_PATCHED = ("random", "numpy.random", "torch", "torch.autograd", "torch.cuda", "torch.nn.functional", "torch.nn.utils")
"""Modules of which a trial or a twin replaces functions that libraries may have taken by name."""


def install(path: str) -> None:
    """Hooks this process as the settings at ``path`` say, before any code of the script."""
    begin(ProbeSettings.read(Path(path)))


def begin(settings: ProbeSettings) -> None:
    """Hooks this process, once: before its program begins, or at any moment of it. The budget is taken at once where torch is there."""
    late = "torch" in sys.modules
    instrument = Instrument(settings)
    if not settings.budget_only:
        atexit.register(instrument.at_exit)  # before those of libraries, so that it comes after them
    if settings.overlay:
        overlay = Overlay(Path(settings.overlay), kept=_kept(settings))
        overlay.install()
        after_import(overlaid_libraries.hooks(overlay, forwarding=instrument.saves))
    elif settings.turn:
        gate.install(settings.turn, instrument.wait_for_turn)
    based, trainers = instrument.orders.payload.get("base", {}), _trainers(instrument)
    if settings.forks:
        put = forks.serve(settings.forks, instrument.orders.payload["argv"], based, (*_PATCHED, *trainers))
        settings = ProbeSettings.read(Path(os.environ[VARIABLE]))
        instrument.takes(settings)
        overlay.moves(Path(settings.overlay), _kept(settings))
    else:
        put = taken((*_PATCHED, *trainers))
    if not settings.budget_only:
        Path(settings.records, LOADED).touch()
    os.register_at_fork(after_in_child=instrument.forked)
    after_import({"torch": lambda module: _torch(instrument), **({} if settings.budget_only else trainers)})
    put()
    after_import({library: functools.partial(_has_base, instrument, modules) for library, modules in based.items()})
    if late:
        instrument.open()


def _kept(settings: ProbeSettings) -> Sequence[Path]:
    """The folders that are written to as they are."""
    return (Path(settings.overlay).parent, *map(Path, settings.kept))


def _has_base(instrument: Instrument, modules: Sequence[str], _: Any) -> None:
    """Takes a CPU's budget with all imported that the library imports sooner or later, and nothing else: trial and run alike. A twin, which
    is small, takes its own at its first model."""
    if not instrument.settings.same and instrument.orders.device == "cpu":
        forks.bring(modules)
        instrument.open()


def _torch(instrument: Instrument) -> None:
    patches.install(instrument)
    if instrument.settings.same:
        twin.install(instrument.settings.same, Path(instrument.settings.records))


def _trainers(instrument: Instrument) -> dict[str, Hook]:
    """Module -> what is done with it when it has been imported, by each trainer's hooks."""
    told = {module: act for one in HOOKS for module, act in one.hooks(instrument).items()}
    return {module: _where_there_is(name, act) for module, (name, act) in told.items()}


def _where_there_is(name: str, hook: Hook) -> Hook:
    """Has a hook leave a module without ``name`` alone: a person's own may have a library's name."""
    return lambda module: hook(module) if hasattr(module, name) else None
