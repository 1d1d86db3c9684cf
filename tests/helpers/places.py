"""Where the repository and what tests use of it lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "launcher"
"""Holds the package, and nothing else."""
EXAMPLES = ROOT / "examples"
SCRIPTS = ROOT / "tests" / "data" / "scripts"
"""Trainings as people write them."""


def lay(files: Mapping[Path, str]) -> None:
    """Writes what a command brings along, as the launcher does."""
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
