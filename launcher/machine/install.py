"""Gives the command that installs what is missing. The only place that makes such advice.

Packages are called as PyPI calls them, and never as an extra of autofit's own: a stranger's project may have that name there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "ultralytics": ("ultralytics", "torch", "torchvision"),
    "transformers": ("transformers", "accelerate", "torch", "soundfile", "jiwer"),
    "lora": ("peft",),
    "stacks": ("py-spy",),
    "demo": ("scikit-learn", "pillow"),
}
"""The packages of each extra of pyproject.toml that a person may lack."""
_DISTRIBUTIONS: Mapping[str, str] = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "pytorch_lightning": "lightning",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Module -> the distribution that brings it, where it is called otherwise."""
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named ['\"]([\w.]+)['\"]")


def command(*packages: str) -> str:
    """``pip install ...`` of these packages, each perhaps with versions."""
    return f"pip install {' '.join(map(shlex.quote, packages))}"


def extra(name: str) -> str:
    """``pip install ...`` of what an extra brings."""
    return command(*EXTRAS[name])


def missing_module(said: str) -> str | None:
    """The module for want of which a program has ended, by its last words; None where it ended otherwise."""
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    found = _NO_MODULE.match(last.strip())
    return found[1].partition(".")[0] if found else None


def module(name: str) -> str:
    """``pip install ...`` of what brings a module: with all else of its extra, since who lacks one lacks the others."""
    package = _DISTRIBUTIONS.get(name, name)
    extras = [packages for packages in EXTRAS.values() if package in packages]
    return command(*extras[0]) if len(extras) == 1 else command(package)
