"""What autofit loads into a program's process: the probe of a trial, or of a run that is held to a budget (``AUTOFIT_PROBE``); in a full
run what makes its saves whole (``AUTOFIT_SAVES``).

The package is loaded by the name ``_autofit``: the program may have a ``launcher`` of its own, and finds none of ours.
"""

import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType

PROBE, SAVES = "AUTOFIT_PROBE", "AUTOFIT_SAVES"


def _ours(name: str) -> ModuleType:
    """A module of the package, by its name below it."""
    if "_autofit" not in sys.modules:
        package = sys.modules["_autofit"] = ModuleType("_autofit")
        package.__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
    return importlib.import_module(f"_autofit.{name}")


def _probe(settings: str) -> Callable[[], None]:
    try:
        start = _ours("inside.start")
    except BaseException as error:
        _failed(settings, error)
        return _nothing

    def begin() -> None:
        try:
            start.install(settings)
        except BaseException as error:
            _failed(settings, error)

    return begin


def _failed(settings: str, error: BaseException) -> None:
    """The trial must say so; a broken probe must not pass for a script that fits."""
    with open(f"{settings}.failed", "a", encoding="utf-8") as file:
        file.write(f"{sys.executable} {sys.version.split()[0]}: {type(error).__name__}: {error}\n")


def _nothing() -> None: ...


def _prepared() -> Callable[[], None]:
    settings = os.environ.get(PROBE)
    return _probe(settings) if settings and os.path.exists(settings) else _nothing


def _saving(modules: str) -> Callable[[], None]:
    """Installs the modules that make saves whole. A run goes on without them: then a kill within a save may leave a torn checkpoint."""

    def begin() -> None:
        for install in installs:
            install()

    installs = []
    for name in filter(None, modules.split(",")):
        try:
            installs.append(_ours(name).install)
        except Exception as error:
            print(f"autofit: a kill within a save may tear it: {name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return begin


def _both(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    def begin() -> None:
        first()
        then()

    return begin


if "AUTOFIT_STACKS" in os.environ:
    _ours("inside.stacks").tell()
begin = _both(_prepared(), _saving(os.environ.get(SAVES, "")))
