"""Writes sentences and commands on the console so that they can be read and copied.

On a terminal words stay whole: a line that is too long is broken between two of them, and goes on below its own beginning. A command that
is broken is still one: the shell goes on after a backslash. Elsewhere nothing is broken, however long: no column ends there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from launcher.errors import Fault

_SHELL_WORD = re.compile(r"""(?:[^\s'"\\]|'[^']*'|"(?:\\.|[^"\\])*"|\\.)+""", re.DOTALL)
_WORD = re.compile(r"\S+")
_LITTLE = 4
"""Further lines are moved in so far where they would have less than half of the screen."""


def say(console: Console, words: str | Text, *, style: str = "", hang: int = 0) -> None:
    """``hang``: columns that further lines are moved in; the first stands as it is."""
    text = words if isinstance(words, Text) else Text(words, style=style)
    if not console.is_terminal:
        console.print(text, soft_wrap=True)
        return
    for line in text.split("\n", allow_blank=True):
        for row in _rows(console, line, hang):
            console.print(row, soft_wrap=True)


def _rows(console: Console, line: Text, hang: int) -> Iterator[Text]:
    if line.cell_len <= console.width:
        yield line
        return
    hang = hang if hang <= console.width // 2 else _LITTLE
    for at, row in enumerate(line.divide(_breaks(line.plain, console.width, hang))):
        row.rstrip()
        yield Text.assemble(" " * hang, row) if at else row


def _breaks(line: str, columns: int, hang: int) -> list[int]:
    """Where rows after the first begin. A word that is longer than a row has one of its own, and is copied whole."""
    found, begin, room = list[int](), 0, columns
    for word in _WORD.finditer(line, pos=hang):
        if word.start() > hang and cell_len(line[begin : word.end()]) > room:
            found.append(word.start())
            begin, room = word.start(), columns - hang
    return found


def command(console: Console, shell: str, *, before: str = "") -> None:
    """A command line, behind what is said of it where both find room, else below."""
    if not console.is_terminal or len(before) + len(shell) <= console.width:
        console.print(Text.assemble(before, (shell, "cyan")), soft_wrap=True)
        return
    if before.strip():
        say(console, before.rstrip())
    for row in _continued(shell, console.width):
        console.print(Text(row, style="cyan"), soft_wrap=True)


def _continued(shell: str, columns: int) -> Iterator[str]:
    row = " "
    for word in _SHELL_WORD.findall(shell):
        if row.strip() and len(row) + 1 + len(word) + 2 > columns:
            yield f"{row} \\"
            row = "   "
        row = f"{row} {word}"
    yield row


def faults(console: Console, found: Iterable[Fault]) -> None:
    """What is wrong with the input, one fault a paragraph."""
    for fault in found:
        place = ": ".join(part for part in (fault.where, fault.key) if part)
        say(console, Text.assemble((f"{place}: " if place else "", "bold"), (fault.found, "red"), _then(fault)))


def _then(fault: Fault) -> str:
    """The cure behind what was found, each a sentence; a dot is never glued to a path that it would be copied with."""
    end = " " if fault.found.endswith((".", "!", "?", ":")) else ". "
    return f"{end}{fault.cure}" if fault.cure else ""


def duration(seconds: float) -> str:
    """For people: 45 s, 3 min 05 s, 2 h 10 min, 3 days."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
