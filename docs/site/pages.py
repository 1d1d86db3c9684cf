"""Makes pages of the site from the code: every key of a recipe, what each trainer's wheels are, every recipe, every decision."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from autofit_launcher.adapter.registry import adapters
from autofit_launcher.cli import manual
from autofit_launcher.config.schema import Recipe, WheelRule

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[([^]]+)\]\(([^)#\s]+)\)")


def write(folder: Path) -> None:
    """All pages, into a folder that the site is built from."""
    (folder / "extra").mkdir(parents=True, exist_ok=True)
    (folder / "keys.md").write_text(keys(), encoding="utf-8")
    (folder / "recipes.md").write_text(recipes(), encoding="utf-8")
    (folder / "decisions.md").write_text(decisions(), encoding="utf-8")
    (folder / "extra" / "index.html").write_text('<meta http-equiv="refresh" content="0; url=docs/index.html">\n', encoding="utf-8")


# -- keys


def keys() -> str:
    """Each key of a recipe with its default and meaning, as ``autofit train --help`` has it; then the wheels."""
    sections: dict[str, list[tuple[str, FieldInfo]]] = {}
    for key, field in manual.fields(Recipe):
        sections.setdefault(key.partition(".")[0] if "." in key else "", []).append((key, field))
    parts = ["# Every key", "", "Made of the schema. The keys that people change, with examples: [settings](/docs/settings.md).", ""]
    for section, found in sections.items():
        parts += [f"## {section}" if section else "## The recipe itself", "", *_definitions(found)]
    wheel = [(f"ladder.wheels.NAME.{name}", field) for name, field in WheelRule.model_fields.items()]
    return "\n".join([*parts, "## ladder.wheels.NAME", "", *_definitions(wheel), *_wheels()]) + "\n"


def _definitions(fields: list[tuple[str, FieldInfo]]) -> Iterator[str]:
    for key, field in fields:
        meaning = " ".join((field.description or "").replace("``", "`").split())
        yield from (f"**`{key}{manual.default(field)}`**", f": {meaning}", "")


def _wheels() -> Iterator[str]:
    yield from ("## ask", "", "What can be asked of each trainer: rung 0. `accumulation` can be asked of all of them.", "")
    for adapter in adapters():
        if adapter.wheels:
            yield from (f"### {adapter.name}", "")
            yield from (f"**`ask.{name}`**\n: {wheel.help}\n" for name, wheel in sorted(adapter.wheels.items()))


# -- recipes


def recipes() -> str:
    """Each recipe: what it asks for, and its file with its comments."""
    parts = ["# Recipes", "", "A recipe is a YAML file; `autofit recipes copy NAME` puts a copy of your own into `./recipes`.", ""]
    for path in sorted((ROOT / "recipes").rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        told = yaml.safe_load(text)
        asked = ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in told["ask"].items())
        parts += [f"## {path.stem}", "", f"{told['summary']}.", "", f"Asks for {asked}.", ""]
        parts += ["```yaml", text.rstrip(), "```", ""]
    return "\n".join(parts)


def decisions() -> str:
    """Where all decisions are listed."""
    return "# Decisions\n\nWhy things are as they are.\n\n```{toctree}\n:maxdepth: 1\n:glob:\n\n/docs/decisions/*\n```\n"


# -- links


def without_links_to_folders(app: Any, name: str, content: list[str]) -> None:
    """A folder has no page: its link becomes its name."""
    here = (ROOT / f"{name}.md").parent

    def shown(link: re.Match[str]) -> str:
        return link[1] if "://" not in link[2] and (here / link[2]).is_dir() else link[0]

    content[0] = LINK.sub(shown, content[0])
