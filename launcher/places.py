"""Where autofit's own files are."""

from __future__ import annotations

from pathlib import Path


def home() -> Path:
    """The folder that holds conf/, recipes/ and examples/: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package if (package / "conf").is_dir() else package.parent


def recipe_folders() -> tuple[Path, ...]:
    """Where recipes are: the built-in ones, then the person's own. Of two with one name the later counts."""
    return (home() / "recipes", Path.cwd() / "recipes")
