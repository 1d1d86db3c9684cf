"""Where the repository and what tests use of it lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "launcher"
"""Holds the package, and nothing else."""
EXAMPLES = ROOT / "examples"
SCRIPTS = ROOT / "tests" / "data" / "scripts"
"""Trainings as people write them."""
