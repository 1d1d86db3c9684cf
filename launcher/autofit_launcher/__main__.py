"""The command ``autofit``, also as ``python -m autofit_launcher``, and by its path how autofit starts a module of its own.

A person's PYTHONPATH may hold a ``yaml.py`` or a ``hydra/`` of their own, which is for their script: in this process what is installed
comes first, and the working folder not at all. The programs that it starts have the person's path unchanged.

    python -P autofit_launcher/__main__.py MODULE [ARGS...]     as ``python -P -m MODULE [ARGS...]``, where the package isn't installed too
"""

from __future__ import annotations

import os
import sys

PACKAGE = "autofit_launcher"


def main() -> None:
    """The command ``autofit``."""
    installed = _installed(sys.path)
    sys.path[:] = [*installed, *(place for place in sys.path if place not in installed and not _is_here(place))]
    try:
        from autofit_launcher.cli.main import main as autofit

        autofit()
    except KeyboardInterrupt:  # while it is being loaded; from then on it is answered where the verb is
        sys.stderr.write("autofit: interrupted by SIGINT\n")
        sys.exit(130)


def _installed(path: list[str]) -> list[str]:
    """Returns the path from the standard library on: PYTHONPATH stands before it. All of it where that can't be told."""
    home = os.path.dirname(os.path.realpath(os.__file__))
    return next((path[at:] for at, place in enumerate(path) if os.path.realpath(place) == home), path)


def _is_here(place: str) -> bool:
    """Tells whether a place of the path is the working folder: by ``python -m``, or an empty part of PYTHONPATH."""
    try:
        return os.path.samefile(place or ".", ".")
    except OSError:
        return False


def _module() -> None:
    """Runs the module that the command line names, with the package loaded from beside this file."""
    import importlib.util
    import runpy

    place = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(PACKAGE, os.path.join(place, "__init__.py"), submodule_search_locations=[place])
    assert spec is not None and spec.loader is not None
    module = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main() if __package__ else _module()
