"""Writes the recipe for a command that was understood, to be kept and edited."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autofit_launcher.adapter.recognised import Understood


def recipe(understood: Understood, *, name: str) -> str:
    """The recipe's text."""
    named = any(group.startswith("trainer:") for group in understood.groups)  # a package of somebody else's has no group of ours
    trainer = {
        **({} if named else {"adapter": understood.adapter}),
        **({"task": understood.task} if understood.task else {}),
        "args": understood.args,
    }
    sections = {"ask": understood.ask, "trainer": trainer, "ladder": understood.ladder, "device": understood.device}
    lines = [*_head(understood, name), *([f"data: {as_text(understood.data)}"] if understood.data else [])]
    for section, values in sections.items():
        if values:
            lines += ["", *_section(section, values)]
    return "\n".join(lines) + "\n"


def _head(understood: Understood, name: str) -> Iterator[str]:
    """Yields the recipe's header, defaults list and summary."""
    command = _on_one_line(" ".join(understood.words))
    yield "# @package _global_"
    yield f"# What autofit understood of: {command}"
    yield from (f"#   {belief.wheel:<16} {as_text(belief.value):<10} {_on_one_line(belief)}" for belief in understood.beliefs)
    yield from (f"#   in doubt: {_on_one_line(doubt)}" for doubt in understood.doubts)
    yield from ("#", f"# Launch:   autofit train recipe={name}", "defaults:")
    yield from (f"  - override /{group}" for group in understood.groups)
    yield from ("  - _self_", "", f"summary: {as_text(f'`{command[:100]}`')}")


def _section(name: str, value: Any, depth: int = 0) -> Iterator[str]:
    """A key with its value as YAML, one level of nesting per two columns."""
    said = name if re.fullmatch(r"\w+", name) else as_text(name)
    if not isinstance(value, Mapping) or not value:
        yield f"{'':{depth}}{said}: {as_text(value)}"
        return
    yield f"{'':{depth}}{said}:"
    for inner, inside in value.items():
        yield from _section(inner, inside, depth + 2)


def _on_one_line(text: object) -> str:
    """Joins the lines of a text, for a comment: a word of a command may have line breaks."""
    return " ".join(str(text).splitlines())


def as_text(value: Any) -> str:
    """A value as YAML and Hydra both read it; a ``${`` of the person's own is text, not one of Hydra's interpolations."""
    return json.dumps(value, ensure_ascii=False).replace("${", "\\\\${")


def beliefs(understood: Understood) -> list[str]:
    """Tells what each setting is taken for, a line each, for the screen."""
    return [f"{belief.wheel:<16} {as_text(belief.value):<8} {belief}" for belief in understood.beliefs]
