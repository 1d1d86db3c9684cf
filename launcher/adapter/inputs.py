"""The files and packages that a training depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """All that decides what a trial needs beside the recipe's own words, the machine and the installed packages.

    A fit is kept, and used again without a trial, only while none of it has changed: what is left out here may kill a run.
    """

    data: Sequence[Path] = ()
    """Files and folders that are trained on; of a folder everything counts."""
    models: Mapping[str, Path | None] = field(default_factory=dict)
    """Model of the ladder -> its file or folder; None where it isn't here yet."""
    texts: Sequence[Path] = ()
    """Settings, told by their content."""
    code: Sequence[Path] = ()
    """Files and folders of code that is the person's own."""
    written: Sequence[Path] = ()
    """Places below ``code`` that runs write to."""
    packages: Sequence[Path] = ()
    """Folders of installed packages that people may have edited."""
    program: str = ""
    """The program whose environment counts; empty: the launcher's own."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Anything else, in words."""
    unknown: str = ""
    """Why it can't be told, in words: no fit is kept then."""


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, which is not imported."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None
