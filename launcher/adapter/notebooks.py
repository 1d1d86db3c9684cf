"""A notebook's code as one Python source: its cells in their order, their lines kept, and what IPython alone understands left blank."""

from __future__ import annotations

import json
import re
import tokenize
from collections.abc import Iterator, Sequence

SUFFIX = ".ipynb"
_PROGRAM = re.compile(r"\s*(?:[\w.]+\s*=\s*)?(!|%(?:pip|conda|mamba|system|sx)\b|%%(?:bash|sh|script|system)\b)|(?:pip|conda)\s+install\s")
"""How a line begins by which IPython starts another program."""
_MAGIC = re.compile(r"\s*(?:[\w.]+\s*=\s*)?[!%?]|\s*[\w.]+\?{1,2}\s*$|(?:pip|conda)\s+install\s")
"""How a statement begins that IPython alone understands."""
_INDENT = re.compile(r"[ \t]*")


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
        own = held.split("\n")[:1] if _of_another_language(held) else [line for line, plain in _lines(held) if line != plain]
        yield from (f"cell {number}: {line.strip()}" for line in own if _PROGRAM.match(line))


def _cells(text: str) -> list[str]:
    """The code of each code cell, which IPython moves to the left as far as its first line stands to the right."""
    try:
        cells = json.loads(text)["cells"]
        held = ["".join(one["source"]) for one in cells if one["cell_type"] == "code"]
        return [re.sub(rf"^{_INDENT.match(one)[0]}", "", one, flags=re.MULTILINE) for one in held]  # type: ignore[index]
    except (ValueError, KeyError, TypeError):
        return []


def _plain(held: str) -> str:
    """The cell as Python, with as many lines: a cell of another language is blank, a line of IPython's passes."""
    if _of_another_language(held):
        return "\n" * held.count("\n")
    return "\n".join(plain for _, plain in _lines(held))


def _lines(held: str) -> Iterator[tuple[str, str]]:
    """Each line, and what it is as Python: the same, or ``pass`` for what IPython alone reads, and nothing for what goes on with that."""
    before: list[str] = []
    goes_on = False
    for line in held.split("\n"):
        begins = not goes_on and _MAGIC.match(line) is not None and not _unfinished(before)
        plain = re.sub(r"\S.*", "pass", line, count=1) if begins else "" if goes_on else line
        goes_on = (begins or goes_on) and line.rstrip().endswith("\\")
        before.append(plain)
        yield line, plain


def _unfinished(before: Sequence[str]) -> bool:
    """Whether the next line goes on with a statement or a string: ``print("%d"`` before ``% number)``."""
    if before and before[-1].endswith("\\"):
        return True
    try:
        for _ in tokenize.generate_tokens(iter([f"{line}\n" for line in before]).__next__):
            pass
    except tokenize.TokenError as error:
        return "multi-line" in str(error) or "triple-quoted" in str(error)
    except SyntaxError:
        return False
    return False


def _of_another_language(held: str) -> bool:
    """A cell that begins with ``%%bash`` and the like, which Python doesn't run."""
    return re.match(r"\s*%%(?!(capture|time|timeit|prun)\b)", held) is not None
