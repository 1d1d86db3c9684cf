"""The console script, and how autofit starts modules of its own: with its package ``launcher`` loaded from beside this file.

A person's PYTHONPATH, or the folder they start from, may hold a ``launcher``, a ``yaml.py`` or a ``hydra/`` of their own, which is for
their script; this module's name is nobody else's.

    python -P autofit_launcher.py MODULE [ARGS...]     as ``python -P -m MODULE [ARGS...]``
"""

from __future__ import annotations

import os
import sys

PACKAGE = "launcher"
DEPENDENCIES = frozenset((
    "hydra", "omegaconf", "antlr4", "packaging", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection",
    "yaml", "_yaml", "psutil", "pynvml", "rich", "pygments", "markdown_it", "mdurl", "attr",
))  # fmt: skip
"""What the launcher's own process imports of what is installed. A trainer's modules aren't among it: they are found as the trainer does."""


def main() -> None:
    """The command ``autofit``."""
    sys.meta_path.insert(0, OwnFirst())  # type: ignore[arg-type]  # its finder's type would have to be imported, from wherever
    try:
        _pin()
        from launcher.cli.main import main as autofit

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
    """From the standard library on: PYTHONPATH stands before it. All of it where that can't be told."""
    home = os.path.dirname(os.path.realpath(os.__file__))
    return next((path[at:] for at, place in enumerate(path) if os.path.realpath(place) == home), path)


def _pin() -> None:
    """Puts the package into ``sys.modules``: whatever else of its name is on the path isn't found any more, nor are its modules."""
    import importlib.util

    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), PACKAGE)
    spec = importlib.util.spec_from_file_location(PACKAGE, os.path.join(place, "__init__.py"), submodule_search_locations=[place])
    assert spec is not None and spec.loader is not None
    module = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _module() -> None:
    """Runs the module that the command line names."""
    del sys.argv[0]
    if sys.argv[0] == PACKAGE:
        main()
        return
    _pin()
    import runpy

    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _module()
