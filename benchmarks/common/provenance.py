"""Where a benchmark's rows were made: machine, versions, commit."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess

import psutil

from benchmarks.common.rows import ROOT, Row

VERSIONS = ("autofit-launcher", "torch", "ultralytics", "transformers", "numpy")


def versions(*more: str) -> dict[str, str]:
    """Of Python, and of the packages that are installed; ``more``: beside those that every row names."""
    found = {"python": platform.python_version()}
    for name in (*VERSIONS, *more):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def machine() -> Row:
    return {"cores": os.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 2**30, 1), "system": platform.platform()}


def commit() -> str:
    """The commit, with a + where the product itself has been changed since."""
    head, changed = _git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "launcher", "conf", "recipes")
    return f"{head or 'unknown'}{'+' if changed else ''}"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
