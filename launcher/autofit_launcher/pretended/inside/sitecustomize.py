"""Computes PyTorch's operators on the CPU (operators.py) where a process finds pretended cards, from the moment that torch is imported.

First on PYTHONPATH. The program's own modules and its own sitecustomize are what they would be without this one.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
AFTER_IMPORT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "inside", "after_import.py")


def _load(name: str, file: str) -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compute(torch: ModuleType) -> None:
    _load("_autofit_pretended_operators", os.path.join(HERE, "operators.py")).begin()


def _chained() -> None:
    """Runs the sitecustomize that this one hides, in its place."""
    bootstrap: Any = sys.modules["_frozen_importlib"]
    external: Any = sys.modules["_frozen_importlib_external"]
    spec = external.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = bootstrap.module_from_spec(spec)
        spec.loader.exec_module(module)


sys.path[:] = [place for place in sys.path if os.path.abspath(place or os.getcwd()) != HERE]
_load("_autofit_pretended_after_import", AFTER_IMPORT).after_import({"torch": _compute})
_chained()
