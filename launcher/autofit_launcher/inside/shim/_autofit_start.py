"""Loads autofit's parts into a program's process: the probe of a trial, or of a run that is held to a budget (``AUTOFIT_PROBE``); in a full
run the code that makes its saves whole (``AUTOFIT_SAVES``).

The package is loaded by the name ``_autofit``: the program finds none of ours by their own.
"""

import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

PROBE, SAVES = "AUTOFIT_PROBE", "AUTOFIT_SAVES"


def _ours(name: str) -> ModuleType:
    """A module of the package, by its name below it."""
    if "_autofit" not in sys.modules:
        package = sys.modules["_autofit"] = ModuleType("_autofit")
        package.__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
    return importlib.import_module(f"_autofit.{name}")


def _telling(settings: str, act: Callable[[], Any]) -> Any:
    """Returns what ``act`` returns. If it fails the trial must say so: a broken probe must not pass for a script that fits."""
    try:
        return act()
    except BaseException as error:
        with open(f"{settings}.failed", "a", encoding="utf-8") as file:
            file.write(f"{sys.executable} {sys.version.split()[0]}: {type(error).__name__}: {error}\n")
        return None


def _saving(modules: str) -> list[Callable[[], Any]]:
    """Loads what makes saves whole. A run goes on without it: then a kill within a save may leave a torn checkpoint."""
    installs = []
    for name in filter(None, modules.split(",")):
        try:
            installs.append(_ours(name).install)
        except Exception as error:
            print(f"autofit: a kill within a save may tear it: {name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return installs


def begin() -> None:
    if start is not None:
        _telling(settings, lambda: start.install(settings))
    for install in saving:
        install()


settings = os.environ.get(PROBE, "")
start = _telling(settings, lambda: _ours("inside.start")) if settings and os.path.exists(settings) else None
saving = _saving(os.environ.get(SAVES, ""))
