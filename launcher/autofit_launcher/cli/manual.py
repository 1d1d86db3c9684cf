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
USUAL = ("ask", "data", "device.memory", "trainer.args", "ladder.order", "recover.allow_restart", "run.root")
"""Keys that a page tells unless all are asked for."""


def page(verb: Verb, *, whole: bool = False) -> str:
    """Writes a verb's page of help. ``whole``: with all groups and keys of a recipe."""
    reads = verb.composes
    parts = [f"autofit {verb.name} {verb.usage}".rstrip(), verb.help]
    parts += ["", "Flags:", *_said({**verb.flags, **_EVERYWHERE, **(_HYDRAS if reads else {})})]
    if reads and whole:
        parts += ["", "Groups (GROUP=OPTION):", *_said({name: ", ".join(options) for name, options in compose.groups().items()})]
    if only := ("",) if reads and whole else USUAL if reads else ("recover.",) if "recover." in verb.usage else ():
        parts += ["", "Keys (KEY=VALUE), with defaults where neither recipe nor group says otherwise:", *_said(_keys(only))]
    if reads and not whole:
        parts += ["", f"autofit {verb.name} --help all tells every key and group."]
    return "\n".join(parts)


def _said(named: Mapping[str, str]) -> Iterator[str]:
    """Yields names, and below each what it means."""
    for name, meaning in named.items():
        yield f"  {name}"
        yield from textwrap.wrap(meaning, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_long_words=False)


def _keys(only: tuple[str, ...]) -> dict[str, str]:
    """The meaning of each key that begins with one of ``only``, by the key with its default; of ``ask`` what each trainer takes."""
    from autofit_launcher.adapter.registry import adapters
    from autofit_launcher.config.schema import Recipe

    wheels = " ".join(f"{one.name}: {', '.join(sorted(one.wheels))}." for one in adapters() if one.wheels)
    told = {key: field for key, field in fields(Recipe) if key.startswith(only)}
    return {
        f"{key}{default(field)}": f"{(field.description or '').replace('``', '')} {wheels if key == 'ask' else ''}"
        for key, field in told.items()
    }


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
