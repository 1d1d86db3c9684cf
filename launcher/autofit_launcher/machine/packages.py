"""Finds packages that are installed for an interpreter, this process's or another, and its PyTorch, without importing them."""

from __future__ import annotations

import functools
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from autofit_launcher.errors import refusal
from autofit_launcher.machine import process


@functools.cache
def package_folder(name: str, *, python: str = sys.executable) -> Path | None:
    """The folder of a package; None where it isn't installed. Raises BadInput where the interpreter doesn't start."""
    there = [*Path(python).parents[1].glob(f"lib/python3*/site-packages/{name}/__init__.py")]
    before = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place and [*Path(place).glob(f"{name}*")]]
    if len(there) == 1 and not before:
        return there[0].parent
    asks = f"import importlib.util as u; s = u.find_spec({name!r}); print(s.origin if s and s.origin else '')"
    status, said = process.output_of((python, "-c", asks), env={"PYTHONSAFEPATH": "1"})  # no program has the working folder on its path
    if status:
        raise refusal(f"{python} can't be asked for {name}: {said.strip()[-300:]}", "Start it by hand.", where="")
    return Path(said.strip()).parent if said.strip() else None


@functools.cache
def too_old(python: str) -> str:
    """Says of an interpreter that it is older than what acts in a trainer's process; empty for any other."""
    asks = "import sys; sys.version_info < (3, 11) and print(*sys.version_info[:2], sep='.')"
    status, said = process.output_of((python, "-c", asks)) if python != sys.executable else (0, "")
    return f"{python} is Python {said.strip()}, and autofit watches trainings of Python 3.11 or newer" if said and not status else ""


class Torch(NamedTuple):
    """An installed PyTorch."""

    folder: Path
    version: str
    cuda: str
    """The CUDA that it was built with, as "13.2"; empty for a CPU build."""


def torch_of(python: str) -> Torch | None:
    """The PyTorch that a Python would import; None where there is none."""
    if (folder := package_folder("torch", python=python)) is None:
        return None
    text = (folder / "version.py").read_text(encoding="utf-8")
    said = dict(re.findall(r"^(\w+)(?::[^=]+)? = '([^']*)'", text, re.MULTILINE))
    return Torch(folder=folder, version=said.get("__version__", ""), cuda=said.get("cuda", ""))
