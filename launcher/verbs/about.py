"""Verbs that take nothing: recipes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from launcher.errors import ExitCode
from launcher.places import recipe_files
from launcher.verbs.base import Answer, Call, Task


def recipes(call: Call) -> Iterator[Task]:
    yield lambda: _recipes(call)


def _recipes(call: Call) -> Answer:
    """One line for each recipe."""
    found = [{"name": name, "summary": _summary(path), "file": str(path)} for name, path in sorted(recipe_files().items())]
    width = max((len(recipe["name"]) for recipe in found), default=0)
    call.terminal.say(*(f"{recipe['name']:<{width}}  {recipe['summary']}" for recipe in found))
    return Answer(status=ExitCode.DONE, record={"recipes": found})


def _summary(path: Path) -> str:
    import yaml

    try:
        return str((yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("summary", ""))
    except (OSError, ValueError, yaml.YAMLError, AttributeError) as error:
        return f"(can't be read: {str(error).splitlines()[0]})"
