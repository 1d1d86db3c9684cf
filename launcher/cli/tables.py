"""Draws rows as a table where there is room, else as a paragraph for each row. No cell is ever cut or broken within a word.

Without a terminal there is room for everything. On one, columns that say the same in every row are told above the rows first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from launcher.cli import prose

_GAP = "   "


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table's."""

    name: str
    right: bool = True
    shared: bool = False
    """It may be told once for all rows."""


Row = Sequence[Text]


def show(console: Console, columns: Sequence[Column], rows: Sequence[Row], *, title: str = "") -> None:
    """The first column is what a row is called."""
    if _drawn(console, columns, rows, title):
        return
    same = [at for at, column in enumerate(columns) if column.shared and len({row[at].plain for row in rows}) == 1]
    said = ", ".join(f"{columns[at].name} {rows[0][at].plain}" for at in same)
    kept = [at for at in range(len(columns)) if at not in same]
    columns, rows = [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]
    title = ". ".join(filter(None, [title, f"In every row: {said}" if said else ""]))
    if _drawn(console, columns, rows, title):
        return
    if title:
        prose.say(console, title, style="italic")
    for row in rows:
        items = [Text.assemble((column.name, "dim"), " ", cell) for column, cell in zip(columns, row, strict=True)]
        prose.say(console, Text(_GAP).join(items if columns[0].right else [row[0], *items[1:]]), hang=4)


def _drawn(console: Console, columns: Sequence[Column], rows: Sequence[Row], title: str) -> bool:
    """Draws a table if there is room for it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    table.width = console.measure(table, options=console.options.update_width(10**6)).maximum
    if console.is_terminal and table.width > console.width:
        return False
    if title:
        prose.say(console, title, style="italic")
    console.print(table, crop=False)
    return True
