"""Makes the ``pip install`` command for what is missing. All such advice comes from here.

Packages go by their names on PyPI. An extra of autofit's own is never named, since another project may have that name there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "ultralytics": ("ultralytics", "torch", "torchvision"),
    "transformers": ("transformers", "accelerate", "torch", "soundfile", "jiwer"),
    "lora": ("peft",),
    "slurm": ("submitit",),
    "demo": ("scikit-learn", "pillow"),
}
"""The packages of each extra in pyproject.toml that may be missing."""
_DISTRIBUTIONS: Mapping[str, str] = {
    "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python", "pytorch_lightning": "lightning", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "yaml": "pyyaml",
}  # fmt: skip
"""Module -> distribution that brings it, if the names differ."""
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named ['\"]([\w.]+)['\"]")


def command(*packages: str) -> str:
    """``pip install ...`` of these packages, each perhaps with versions."""
    return f"pip install {' '.join(map(shlex.quote, packages))}"


def extra(name: str) -> str:
    """``pip install ...`` of what an extra brings."""
    return command(*EXTRAS[name])


def missing_module(said: str) -> str | None:
    """The missing module that ended a program, by its output; None if something else did."""
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    found = _NO_MODULE.match(last.strip())
    return found[1].partition(".")[0] if found else None


def module(name: str) -> str:
    """``pip install ...`` of what brings a module, with the rest of its extra, which is probably missing, too."""
    package = _DISTRIBUTIONS.get(name, name)
    extras = [packages for packages in EXTRAS.values() if package in packages]
    return command(*extras[0]) if len(extras) == 1 else command(package)
