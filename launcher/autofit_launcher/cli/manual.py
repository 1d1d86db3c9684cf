"""Writes a verb's page of help: what it takes, its flags, examples, and the keys it reads, with what the schema says of them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from autofit_launcher.cli.call import Verb
from autofit_launcher.config import compose

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

WIDTH = 80
_EVERYWHERE = {"--json": "end standard output with one line of JSON; everything else goes to standard error"}
_HYDRAS = {
    "--cfg job": "print the composed recipe and stop (also --info, --resolve, --package)",
    "-m, --multirun": "one launch for each combination of a,b,c values",
}
USUAL = ("ask", "data", "device.memory", "trainer.args", "ladder.order", "trial.fresh", "recover.allow_restart", "run.root")
"""Keys that a page tells unless all are asked for."""


def page(verb: Verb, *, whole: bool = False) -> str:
    """Writes a verb's page of help. ``whole``: with all groups and keys of a recipe."""
    reads = verb.composes
    parts = [f"autofit {verb.name} {verb.usage}".rstrip(), *_wrapped(f"{verb.help}. {verb.more}".strip())]
    parts += ["", "Flags:", *_pairs({**verb.flags, **_EVERYWHERE, **(_HYDRAS if reads else {})})]
    if reads and whole:
        parts += ["", "Groups (GROUP=OPTION):", *_pairs({name: ", ".join(options) for name, options in compose.groups().items()})]
    if only := ("",) if reads and whole else USUAL if reads else ("recover.",) if "recover." in verb.usage else ():
        parts += ["", "Keys (KEY=VALUE), with defaults where neither recipe nor group says otherwise:", *_keys(only)]
    if reads and not whole:
        parts += ["", f"autofit {verb.name} --help all tells every key and group."]
    return "\n".join(parts)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _pairs(said: Mapping[str, str]) -> Iterator[str]:
    """Formats names, and beside them what they do."""
    width = max(map(len, said)) + 4
    for name, meaning in said.items():
        lines = _wrapped(meaning, " " * width) or [""]
        yield f"  {name}".ljust(width) + lines[0][width:]
        yield from lines[1:]


def _keys(only: tuple[str, ...]) -> Iterator[str]:
    """Formats each key that begins with one of ``only``: its default, and below it what it means; of ``ask`` what each trainer takes."""
    from autofit_launcher.adapter.registry import adapters
    from autofit_launcher.config.schema import Recipe

    wheels = " ".join(f"{one.name}: {', '.join(sorted(one.wheels))}." for one in adapters() if one.wheels)
    for key, field in fields(Recipe):
        if key.startswith(only):
            meaning = " ".join((field.description or "").replace("``", "").split())
            yield f"  {key}{default(field)}"
            yield from _wrapped(f"{meaning} {wheels}" if key == "ask" else meaning, " " * 6)


def fields(part: Any, section: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """The keys of a section and of all sections in it."""
    from autofit_launcher.config.schema import Part

    for name, field in part.model_fields.items():
        key = f"{section}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, Part):
            yield from fields(field.annotation, f"{key}.")
        else:
            yield key, field


def default(field: FieldInfo) -> str:
    """A key's default as it is shown; empty where there is none, or an empty one."""
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    said = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
    return f" = {said}" if said not in ("{}", "()", "") else ""
