"""In a process that finds pretended cards: computes PyTorch's operators on the CPU (operators.py), from the moment that torch is imported.

First on PYTHONPATH. The program's own modules and its own sitecustomize are what they would be without this one.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # this runs in every Python process of a command: typing isn't loaded for it
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


class _AfterTorch:
    """A finder that lets torch be imported as it is, and then begins."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        import importlib.util

        sys.meta_path.remove(_AfterTorch)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _load("_autofit_pretended_operators", "operators.py").begin()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _load(name: str, file: str) -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, file))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _chained() -> None:
    """Runs the sitecustomize that this one hides, in its place."""
    bootstrap: Any = sys.modules["_frozen_importlib"]
    external: Any = sys.modules["_frozen_importlib_external"]
    spec = external.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = bootstrap.module_from_spec(spec)
        spec.loader.exec_module(module)


sys.path[:] = [place for place in sys.path if os.path.abspath(place or os.getcwd()) != HERE]
if os.environ.get("PRETENDED_FILE"):
    sys.meta_path.insert(0, _AfterTorch)
_chained()
