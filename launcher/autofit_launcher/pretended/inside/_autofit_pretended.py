"""Computes PyTorch's operators on the CPU (operators.py) where a process finds pretended cards, from the moment that torch is imported.

Loaded by the ``sitecustomize`` of ``inside/shim``: ``libraries`` copies that, this, and what this imports into one folder.
"""

from __future__ import annotations

from typing import Any

from .after_import import after_import  # type: ignore[import-not-found]  # copied beside it


def begin() -> None:
    after_import({"torch": _compute})


def _compute(torch: Any) -> None:
    from . import operators

    operators.begin()
