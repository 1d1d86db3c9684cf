"""Draws rows as a table where there is room, else as a paragraph for each row. No cell is ever cut or broken within a word.

Without a terminal there is room for everything. On one, columns that say the same in every row are told above the rows first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from launcher.cli import prose

_INDENT, _GAP = "    ", "   "


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
    as_first = "What a row doesn't say is as in the first" if any(column.shared for column in columns) and len(rows) > 1 else ""
    if title or as_first:
        prose.say(console, ". ".join(filter(None, [title, as_first])), style="italic")
    for row in rows:
        told = [
            (column, cell)
            for column, cell, first in zip(columns, row, rows[0], strict=True)
            if row is rows[0] or not column.shared or cell.plain != first.plain
        ]
        items = [Text.assemble((column.name, "dim"), " ", cell) for column, cell in told]
        for line in _packed(items if columns[0].right else [row[0], *items[1:]], console.width):
            prose.say(console, line, hang=2 * len(_INDENT))


def _packed(items: Sequence[Text], width: int) -> Iterator[Text]:
    """The items, as many to a line as there is room for."""
    line = items[0]
    for item in items[1:]:
        if line.cell_len + len(_GAP) + item.cell_len > width:
            yield line
            line = Text.assemble(_INDENT, item)
        else:
            line = Text.assemble(line, _GAP, item)
    yield line


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
