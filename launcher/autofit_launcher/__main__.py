"""The command ``autofit``, also as ``python -m autofit_launcher``, and by its path how autofit starts a module of its own.

A person's PYTHONPATH, or the folder they start from, may hold a ``yaml.py`` or a ``hydra/`` of their own, which is for their script.

    python -P autofit_launcher/__main__.py MODULE [ARGS...]     as ``python -P -m MODULE [ARGS...]``, where the package isn't installed too
"""

from __future__ import annotations

import os
import sys

PACKAGE = "autofit_launcher"
DEPENDENCIES = frozenset((
    "hydra", "omegaconf", "antlr4", "packaging", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection",
    "yaml", "_yaml", "psutil", "pynvml", "rich", "pygments", "markdown_it", "mdurl", "attr", "jinja2", "markupsafe",
    "submitit", "cloudpickle",
))  # fmt: skip
"""Installed modules that the launcher's own process imports. A trainer's aren't among them: they are found as the trainer does."""


def main() -> None:
    """The command ``autofit``."""
    sys.meta_path.insert(0, OwnFirst())  # type: ignore[arg-type]  # its finder's type would have to be imported, from wherever
    installed = _installed(sys.path)
    sys.path[:] = [place for place in sys.path if place in installed or not _is_here(place)]  # with what a stranger's project says to run
    try:
        from autofit_launcher.cli.main import main as autofit

        autofit()
    except KeyboardInterrupt:  # while it is being loaded; from then on it is answered where the verb is
        sys.stderr.write("autofit: interrupted by SIGINT\n")
        sys.exit(130)


class OwnFirst:
    """Finds what the launcher imports for itself, the standard library's modules too, where it is installed, and not before: neither on
    PYTHONPATH nor in the working folder. Of this process alone; the programs that it starts have the person's path unchanged."""

    def __init__(self) -> None:
        self._names = DEPENDENCIES | sys.stdlib_module_names
        self._path = _installed(sys.path)

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        mine = path is None and name in self._names
        return sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, self._path) if mine else None


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
