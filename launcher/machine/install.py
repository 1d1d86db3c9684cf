"""Makes the ``pip install`` command for what is missing. All such advice comes from here.

Packages go by their names on PyPI. An extra of autofit's own is never named, since another project may have that name there.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "ultralytics": ("ultralytics", "torch", "torchvision"),
    "slurm": ("submitit",),
}
"""The packages of each extra in pyproject.toml that a launch may lack."""


def command(*packages: str) -> str:
    """``pip install ...`` of these packages, each perhaps with versions."""
    return f"pip install {' '.join(map(shlex.quote, packages))}"


def extra(name: str) -> str:
    """``pip install ...`` of what an extra brings."""
    return command(*EXTRAS[name])
