"""The console script, and how autofit starts modules of its own: with its package ``launcher`` loaded from beside this file.

A person's PYTHONPATH may hold a ``launcher`` of their own, which is for their script; this module's name is nobody else's.

    python -P autofit_launcher.py MODULE [ARGS...]     as ``python -P -m MODULE [ARGS...]``
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

PACKAGE = "launcher"


def main() -> None:
    """The command ``autofit``."""
    _pin()
    from launcher.cli.main import main as autofit

    autofit()


def _pin() -> None:
    """Puts the package into ``sys.modules``: whatever else of its name is on the path isn't found any more, nor are its modules."""
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), PACKAGE)
    spec = importlib.util.spec_from_file_location(PACKAGE, os.path.join(place, "__init__.py"), submodule_search_locations=[place])
    assert spec is not None and spec.loader is not None
    module = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _pin()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
