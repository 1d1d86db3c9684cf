"""Turns overrides as people type them into overrides as Hydra reads them.

The shell has already read the line: what stands in a word is meant as it stands. Hydra reads the value with a grammar of its own, in
which a blank, an accent, a comma or a bracket is no text. So a path is handed over quoted, byte for byte, and so is any other value
that Hydra can't read; numbers, lists and sweeps stay Hydra's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

PATHS = frozenset({"data", "run.root", "ask.model"})
"""Keys whose value is a path or a name: it is never a number, a list or a call, whatever it looks like."""

_UNREADABLE = object()
_WORD = re.compile(r"(?P<sign>\+{0,2})(?P<key>[^=]+)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """One ``KEY=VALUE``."""

    sign: str
    key: str
    value: str


def override_in(word: str) -> Override | None:
    """The word's parts; None for what isn't KEY=VALUE (a deletion, ``~KEY``, say)."""
    found = _WORD.fullmatch(word)
    return Override(**found.groupdict()) if found and not word.startswith("~") else None


_CARD = re.compile(r"(?:(?:cuda|gpu):)?(\d+)")


def device(word: str, *, sweeping: bool) -> list[str]:
    """The overrides that ``device=0``, ``device=cuda:1``, ``device=0,1`` and ``device=gpu`` stand for. ``sweeping``: commas part the values
    of a multirun."""
    override = override_in(word)
    if override is None or override.key != "device" or override.sign:
        return [word]
    values = [value.strip() for value in override.value.strip("[]").split(",")]
    cards = [card[1] for value in values if (card := _CARD.fullmatch(value))]
    if not cards or len(cards) < len(values):
        return [word.replace("=gpu", "=cuda")]
    if len(cards) > 1 and not sweeping:
        return ["device=cuda", "device.index=0", f"device.cards=[{','.join(cards)}]"]
    return ["device=cuda", "device.cards=null", f"device.index={','.join(cards)}"]


def for_hydra(word: str, *, groups: Collection[str], sweeping: bool) -> str:
    """The word in Hydra's grammar. ``groups``: keys that choose a file; ``sweeping``: commas part the values of a multirun."""
    override = override_in(word)
    if override is None:
        return word
    from autofit_launcher.config.schema import SECTIONS  # help does without it

    sign = override.sign
    section, dot, _ = override.key.partition(".")
    if not sign and dot and section in {"ask", *SECTIONS}:
        sign = "++"  # works whether a recipe has the key or not: the schema refuses unknown keys, with what was probably meant
    text = override.key in PATHS or override.key in groups
    value = _text(override.value, sweeping=sweeping) if text else _other(override.value, sweeping=sweeping)
    return f"{sign}{override.key}={value}"


def _text(value: str, *, sweeping: bool) -> str:
    """Quotes a text for Hydra, byte for byte but for ``~/``; null, and what is in Hydra's quotes already, stays what it is to Hydra."""
    expanded = os.path.expanduser(value) if value == "~" or value.startswith("~/") else value
    if sweeping and "," in value:
        return ",".join(_text(part, sweeping=False) for part in value.split(","))
    in_quotes = len(value) > 1 and value[0] in "'\"" and value[-1] == value[0] and _hydras(value) is not _UNREADABLE
    if value == "null" or in_quotes or _hydras(value) == expanded:
        return value
    return quoted(expanded)


def _other(value: str, *, sweeping: bool) -> str:
    """Keeps the value as it is where Hydra can read it; puts anything else in quotes, as a text."""
    if _hydras(value) is not _UNREADABLE:
        return value
    if sweeping and "," in value:
        return ",".join(_other(part, sweeping=False) for part in value.split(","))
    return quoted(value)


def jobs(words: Sequence[str]) -> list[list[str]]:
    """The words of each combination that a multirun makes."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return [job for batch in BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(list(words)), None) for job in batch]


def quoted(text: str) -> str:
    """The text in Hydra's quotes: a quote is escaped, and so are the backslashes before it (or before the closing one)."""
    return "'" + re.sub(r"(\\*)('|\Z)", lambda found: 2 * found[1] + found[2].replace("'", r"\'"), text) + "'"


def _hydras(value: str) -> object:
    """Reads the value as Hydra does; ``_UNREADABLE`` where Hydra can't."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(f"key={value}").value()
    except HydraException:
        return _UNREADABLE
