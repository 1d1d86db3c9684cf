"""Turns a log as people have it (notebook, rich's boxes, several ranks, redrawn bars, quoted in a mail) into plain lines. Pure."""

from __future__ import annotations

import re
from textwrap import dedent

_CONTROLS = re.compile(
    r"(?:\x1b|\\u001b|\\x1b|\^\[)(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)|\[\d{1,2}(?:;\d{1,3})*m"
    r"|</?(?:span|pre|div|code|p|br)\b[^<>]*>|[\x00-\x08\x0e-\x1f\x7f]"
)
"""A notebook's HTML, and colours, also those whose first character a terminal or a notebook's file wrote in other letters, or lost."""
_TYPED = str.maketrans("“”„«»\u2018\u2019\xa0", '"""""\'\' ')
"""Quotes as mail programs and word processors write them, and the plain ones in place of them."""
_LONGEST, _MOST, _MOST_LINES = 1000, 1 << 20, 20_000
"""Characters of a line, which is broken there; characters and lines of a log's end: a longer past says nothing of its failure."""
_BEFORE = re.compile(
    r"^(?:>+ ?|[*`]{1,3} ?|[-•] |[│┃|╭╰]+[─━]* ?|\d+: ?(?!\d{1,3}\b)|[\w.-]+[-_]\d+ +\| ?|\[\d+,\d+\]<\w+>: ?"
    r"|\[?[A-Za-z]*:?\d+\]: ?|\[rank ?\d+\] ?|\([A-Za-z][\w ]*pid=\d+[^)]*\) ?|[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ python[\d.]*\[\d+\]: "
    r"|\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]? ?"
    r"(?:[|:-]? ?(?:[A-Z]{4,8}|std(?:out|err)(?: [FP])?)\b ?[|:-]? ?)?)+"
)
"""Marks before a line that a program said: quotes, bullets, boxes, numbers, ranks, times, Ray's, Docker's and Kubernetes' names."""
_BEHIND = re.compile(r"\s*[│┃─╮╯]+\s*$")
SOURCE = re.compile(r"^\s+\d+\s|^\s*(?:(?:-+>|❱)\s*\d+\s|\^|~|\.\.\.)")
"""Lines of source around a frame of IPython's or rich's."""


def plain(text: str) -> list[str]:
    """Cleans the lines of a text: without colours, prefixes and boxes."""
    lines = [line for line in dedent(_CONTROLS.sub("", text[-_MOST:]).translate(_TYPED)).splitlines() if line][-_MOST_LINES:]
    pieces = (line[at : at + _LONGEST] for line in lines for at in range(0, len(line), _LONGEST))
    return [_bare(piece) for piece in pieces]


def _bare(line: str) -> str:
    boxed = line.lstrip().startswith(("│", "┃", "╭", "╰"))
    bare = _BEFORE.sub("", line.lstrip() if boxed else line)
    return re.sub(r"(?<=\S)[ \t]{2,}", " ", _BEHIND.sub("", bare) if boxed else bare.rstrip(" \t*`"))
