"""Tells the versions of what this process has loaded. Loads nothing itself: what a trial imports counts against its budget."""

from __future__ import annotations

import platform
import sys

PACKAGES = (
    "torch", "torchvision", "ultralytics", "transformers", "accelerate", "lightning", "pytorch_lightning", "sentence_transformers", "trl",
    "peft", "deepspeed", "bitsandbytes", "timm", "datasets", "numpy",
)  # fmt: skip


def loaded() -> dict[str, str]:
    """Name -> version of Python, the packages that training mostly hangs on, and the CUDA that torch was built for."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return {**found, "cuda": str(cuda)} if cuda else found
