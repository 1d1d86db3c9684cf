"""Runs at the start of every Python process of a trial: first the sitecustomize that this one hides, then the probe."""

import importlib.machinery
import importlib.util
import os
import sys


def _chain(here: str) -> None:
    """Runs the sitecustomize that would have been found without us."""
    places = [place for place in sys.path if os.path.abspath(place or os.getcwd()) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _probe(settings: str, here: str) -> None:
    """Loads the probe from autofit's own folder, which is on sys.path only while it loads."""
    home = os.path.abspath(os.path.join(here, *[".."] * 6))
    ours = home not in sys.path
    if ours:
        sys.path.append(home)
    try:
        from launcher.trainers.script.inside.probe import start

        start.install(settings)
    finally:
        if ours:
            sys.path.remove(home)


def _main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or os.getcwd()) != here]
    settings = os.environ.get("AUTOFIT_PROBE")
    if settings and os.path.exists(settings):
        try:
            _probe(settings, here)
        except BaseException as error:  # the trial must say so; a broken probe must not pass for a script that fits
            with open(f"{settings}.failed", "a", encoding="utf-8") as file:
                file.write(f"{sys.executable} {sys.version.split()[0]}: {type(error).__name__}: {error}\n")
    _chain(here)


_main()
