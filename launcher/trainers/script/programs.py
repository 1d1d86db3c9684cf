"""Finds the Python file behind an installed program (``lerobot-train``) or module (``python -m open_clip_train.main``). Nothing is run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from launcher.machine.process import interpreter_of

_MOST = 4096
"""Characters of a program that are read: a console script has some hundred."""


def packages_of(program: str) -> Iterator[Path]:
    """The folders in which the environment of a program finds packages: its site-packages, and those that its ``.pth`` files name."""
    for folder in Path(interpreter_of(program)).parent.parent.glob("lib/python3*/site-packages"):
        yield folder
        for listed in sorted(folder.glob("*.pth")):
            lines = listed.read_text(encoding="utf-8", errors="replace").splitlines()
            yield from (Path(line) for line in lines if line.startswith("/") and Path(line).is_dir())


def installed(words: Sequence[str]) -> tuple[Path, Path] | None:
    """(file, folder of its package's) of what a command starts that isn't a script of the person's; None where that isn't found."""
    at = words.index("-m") if "-m" in words[:-1] else None
    module = words[at + 1] if at is not None else _begins_with(words[0])
    for folder in packages_of(words[0]) if module is not None else ():
        stem = folder.joinpath(*str(module).split("."))
        for file in (stem.with_suffix(".py"), stem / "__main__.py", stem / "__init__.py"):
            if file.is_file():
                return file, folder
    return None


def _begins_with(program: str) -> str | None:
    """The module whose function a console script calls: pip writes ``from MODULE import FUNCTION``."""
    found = shutil.which(program)
    try:
        with open(found or os.devnull, encoding="utf-8") as file:
            text = file.read(_MOST)
    except (OSError, ValueError):
        return None  # no text: a program of another kind
    said = re.match(r"#!.*python.*\n(?:.*\n)*?from ([\w.]+) import \w+", text)
    return said[1] if said is not None else None
