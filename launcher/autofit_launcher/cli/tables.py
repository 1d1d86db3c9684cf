"""Draws rows as a table where there is room, else as a paragraph for each row. No cell is ever cut or broken within a word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autofit_launcher.cli import prose


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table's."""

    name: str
    right: bool = True


def show(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Text]], *, title: str = "") -> None:
    """Draws the rows as a table, or as paragraphs where the terminal is too narrow; without a terminal there is room for everything."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    table.width = console.measure(table, options=console.options.update_width(10**6)).maximum
    if title:
        prose.say(console, title, style="italic")
    if not console.is_terminal or table.width <= console.width:
        console.print(table, crop=False)
        return
    for row in rows:
        told = (Text.assemble((column.name, "dim"), " ", cell) for column, cell in zip(columns, row, strict=True))
        prose.say(console, Text("   ").join(told))
