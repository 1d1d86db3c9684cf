"""The files and packages that a training depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """Everything that decides how much memory a trial needs, beyond the recipe, the machine and the installed packages.

    A kept fit is used only while none of this has changed. An input that is left out here may let a wrong fit be used.
    """

    data: Sequence[Path] = ()
    """Files and folders of training data; everything in a folder counts."""
    models: Mapping[str, Path | None] = field(default_factory=dict)
    """Model of the ladder -> its file or folder; None if it isn't on this machine yet."""
    texts: Sequence[Path] = ()
    """Files of settings, compared by content."""
    code: Sequence[Path] = ()
    """Files and folders of the user's own code."""
    written: Sequence[Path] = ()
    """Places below ``code`` that runs write to; they don't count."""
    packages: Sequence[Path] = ()
    """Folders of installed packages that people may have edited."""
    program: str = ""
    """The program whose environment's packages count; empty: the launcher's own environment."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Name -> value of anything else, as text."""
    unknown: str = ""
    """The reason why the inputs can't be known; then no fit is kept. Empty: they are known."""


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, without importing it; None if it isn't installed."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None
