"""Writes sentences and commands on the console so that they can be read and copied.

On a terminal words stay whole: a line that is too long is broken between two of them. Elsewhere nothing is broken, however long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from autofit_launcher.errors import Fault

_WORD = re.compile(r"\S+")


def say(console: Console, words: str | Text, *, style: str = "") -> None:
    text = words if isinstance(words, Text) else Text(words, style=style)
    if not console.is_terminal:
        console.print(text, soft_wrap=True)
        return
    for line in text.split("\n", allow_blank=True):
        for row in line.divide(_breaks(line.plain, console.width)):
            row.rstrip()
            console.print(row, soft_wrap=True)


def _breaks(line: str, columns: int) -> list[int]:
    """Finds where rows after the first begin. A word that is longer than a row gets one of its own, and is copied whole."""
    found, begin = list[int](), 0
    for word in _WORD.finditer(line):
        if line[begin : word.start()].strip() and cell_len(line[begin : word.end()]) > columns:
            begin = word.start()
            found.append(begin)
    return found


def command(console: Console, shell: str, *, before: str = "") -> None:
    """Prints a command line behind ``before``. It is one line, which the terminal itself breaks and copies whole."""
    console.print(Text.assemble(before, (shell, "cyan")), soft_wrap=True)


def faults(console: Console, found: Iterable[Fault]) -> None:
    """Prints what is wrong with the input, one fault a paragraph."""
    for fault in found:
        place = ": ".join(part for part in (fault.where, fault.key) if part)
        say(console, Text.assemble((f"{place}: " if place else "", "bold"), (fault.found, "red"), _then(fault)))


def _then(fault: Fault) -> str:
    """The cure behind what was found, each a sentence; a dot is never glued to a path that it would be copied with."""
    end = " " if fault.found.endswith((".", "!", "?", ":")) else ". "
    return f"{end}{fault.cure}" if fault.cure else ""
