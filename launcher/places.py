"""Where autofit's own files and recipes are, and how a file is called."""

from __future__ import annotations

from pathlib import Path


def home() -> Path:
    """The folder that holds conf/, recipes/ and examples/: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package if (package / "conf").is_dir() else package.parent


def recipe_folders() -> tuple[Path, ...]:
    """Where recipes are: the built-in ones, then the person's own. Of two with one name the later counts."""
    return (home() / "recipes", Path.cwd() / "recipes")


def recipe_files() -> dict[str, Path]:
    """Recipe name -> file; the person's own hide built-in ones of the same name."""
    return {path.stem: path for folder in recipe_folders() for path in sorted(folder.glob("*.yaml"))}


def short(path: Path) -> str:
    """A file as a person would name it from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
