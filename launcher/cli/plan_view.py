"""Draws a plan on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from launcher.cli import prose
from launcher.cli.rungs_view import setting
from launcher.ladder import course
from launcher.ladder.rungs import MICRO_BATCH
from launcher.shared.sizes import format_size


def played(cards: Sequence[Mapping[str, Any]], evidence: str, console: Console) -> None:
    """A line for each card: the rung of its search, what that was seen to need, what was given up."""
    for card in cards:
        prose.say(console, _searched(card), hang=2)
    prose.say(console, evidence, style="dim", hang=2)


def _searched(card: Mapping[str, Any]) -> Text:
    head = f" ({card['title']}, {format_size(card['usable_bytes'])} usable"
    if card["rung"] is None:
        return Text.assemble((card["gpu"], "bold"), f"{head}): ", ("no rung was found", "yellow"), "; its search says why")
    peak = next((one["peak_bytes"] for one in card["trials"] if one["rung_index"] == card["rung_index"]), None)
    need = f"{format_size(peak)} of {format_size(card['cap_bytes'])}" if peak else "its need is in the search's record"
    rung = ", ".join(f"{name} {setting(value)}" for name, value in card["rung"].items())
    less = {name: one for name, one in (card["given_up"] or {}).items() if name != MICRO_BATCH}  # which accumulation makes up for
    given_up = ", ".join(
        f"{name} {setting(one['used'])} instead of {setting(one['asked'])}{course.mark(one.get('another_training'))}"
        for name, one in less.items()
    )
    said = f"{head}, {format_size(card['cap_bytes'])} with the headroom): rung {card['rung_index']} (played, not proven): {rung}; {need}"
    said += f"; given up: {given_up}" if given_up else ""
    return Text.assemble((card["gpu"], "bold"), said)
