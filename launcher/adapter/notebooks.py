"""A notebook's code as one Python source: its cells in their order, their lines kept, and what IPython alone understands left blank."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

SUFFIX = ".ipynb"
_PROGRAM = re.compile(r"\s*(?:\w+\s*=\s*)?(!|%(?:pip|conda|mamba|system|sx)\b|%%(?:bash|sh|script|system)\b)")
"""How a line begins by which IPython starts another program."""
_MAGIC = re.compile(r"\s*(?:\w+\s*=\s*)?[!%?]")


def source(text: str) -> str:
    """What the cells hold; nothing where the text is no notebook."""
    return "\n".join(_plain(cell) for cell in _cells(text))


def cell(text: str, line: int) -> str:
    """``cell 3 line 7`` of a line of ``source``."""
    for number, held in enumerate(_cells(text), start=1):
        if line <= held.count("\n") + 1:
            return f"cell {number} line {line}"
        line -= held.count("\n") + 1
    return f"line {line}"


def programs(text: str) -> Iterator[str]:
    """The lines that start other programs, with their cells: ``cell 1: ! python prepare.py``."""
    for number, held in enumerate(_cells(text), start=1):
        lines = held.splitlines()
        own = lines[:1] if _of_another_language(held) else lines
        yield from (f"cell {number}: {line.strip()}" for line in own if _PROGRAM.match(line))


def _cells(text: str) -> list[str]:
    """The code of each code cell."""
    try:
        cells = json.loads(text)["cells"]
        return ["".join(one["source"]) for one in cells if one["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        return []


def _plain(held: str) -> str:
    """The cell as Python, with as many lines: a cell of another language is blank, a line of IPython's passes."""
    lines = held.split("\n")
    if _of_another_language(held):
        return "\n" * (len(lines) - 1)
    return "\n".join(re.sub(r"\S.*", "pass", line, count=1) if _MAGIC.match(line) else line for line in lines)


def _of_another_language(held: str) -> bool:
    """A cell that begins with ``%%bash`` and the like, which Python doesn't run."""
    return re.match(r"\s*%%(?!(capture|time|timeit|prun)\b)", held) is not None
