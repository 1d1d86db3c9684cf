"""Finds the recipes: built-in ones, those of installed packages, and the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from autofit_launcher.paths import entry_points, home

NAME = re.compile(r"[\w .,+@%:'-]+")
"""Names of recipes: completion offers them to a shell, which must not take one for a command."""
JOBS = "jobs"
"""Folder of the built-in recipes of five jobs, each at its own data, size and card; the others are for anybody's."""
GROUP = "autofit.recipes"
"""Entry points of packages that bring recipes: ``name = "package:folder"``."""


def _of_packages() -> Iterator[Path]:
    """The folders that packages bring recipes in, by the packages' names; nothing of a package is run."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package, _, folder = entry.value.partition(":")
        with suppress(ImportError, ValueError):
            spec = find_spec(package)
            places = spec.submodule_search_locations if spec is not None else None
            yield from (Path(place) / folder for place in places or ())


def recipe_files() -> dict[str, Path]:
    """Finds recipes, built-in ones, those of installed packages, then the user's own: name -> file. Of one name the last counts."""
    folders = (home() / "recipes", home() / "recipes" / JOBS, *_of_packages(), Path.cwd() / "recipes")
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml")) if NAME.fullmatch(path.stem)}


def hides(file: Path) -> bool:
    """Tells whether a recipe takes the place of a built-in one."""
    return any(file.resolve() != built_in.resolve() for built_in in (home() / "recipes").rglob(file.name))
