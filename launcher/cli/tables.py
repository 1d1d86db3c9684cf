"""Draws rows as a table where there is room, else as a paragraph for each row. No cell is ever cut or broken within a word.

Without a terminal there is room for everything. On one, columns that say the same in every row are told above the table first.
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
    table = _table(columns, rows)
    if _has_room(console, table):
        _print(console, table, title)
        return
    same = [at for at, column in enumerate(columns) if column.shared and len({row[at].plain for row in rows}) == 1]
    said = [f"{columns[at].name} {rows[0][at].plain}" for at in same]
    kept = [at for at in range(len(columns)) if at not in same]
    columns, rows = [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]
    title = ". ".join(filter(None, [title, f"In every row: {', '.join(said)}" if said else ""]))
    table = _table(columns, rows)
    if _has_room(console, table):
        _print(console, table, title)
        return
    as_first = "What a row doesn't say is as in the first" if any(column.shared for column in columns) and len(rows) > 1 else ""
    if title or as_first:
        prose.say(console, ". ".join(filter(None, [title, as_first])), style="italic")
    for row in rows:
        _paragraph(console, *_said(columns, row, rows[0]))


def _said(columns: Sequence[Column], row: Row, first: Row) -> tuple[Sequence[Column], Row]:
    """What a row says for itself."""
    kept = [at for at, column in enumerate(columns) if row is first or not column.shared or row[at].plain != first[at].plain]
    return [columns[at] for at in kept], [row[at] for at in kept]


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _width(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update_width(10**6)).maximum


def _has_room(console: Console, table: Table) -> bool:
    return not console.is_terminal or _width(console, table) <= console.width


def _print(console: Console, table: Table, title: str) -> None:
    if title:
        prose.say(console, title, style="italic")
    table.width = _width(console, table)
    console.print(table, crop=False)


def _paragraph(console: Console, columns: Sequence[Column], row: Row) -> None:
    """The row's name, and behind or below it each cell behind its heading, as many to a line as there is room for."""
    name = Text.assemble((columns[0].name, "dim"), " ", row[0]) if columns[0].right else row[0]
    items = [Text.assemble((column.name, "dim"), " ", cell) for column, cell in zip(columns[1:], row[1:], strict=True)]
    whole = Text(_GAP).join([name, *items])
    if whole.cell_len <= console.width:
        console.print(whole, soft_wrap=True)
        return
    console.print(name, soft_wrap=True)
    for line in _packed(items, console.width - len(_INDENT)):
        prose.say(console, Text.assemble(_INDENT, line), hang=2 * len(_INDENT))


def _packed(items: Sequence[Text], width: int) -> Iterator[Text]:
    line = Text()
    for item in items:
        if line and line.cell_len + len(_GAP) + item.cell_len > width:
            yield line
            line = Text()
        line = Text.assemble(line, _GAP, item) if line else item
    yield line
