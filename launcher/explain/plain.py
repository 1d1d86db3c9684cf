"""Turns a log as people have it (notebook, rich's boxes, several ranks, redrawn bars, quoted in a mail) into plain lines. Pure."""

from __future__ import annotations

import re

from launcher.adapter.progress import ANSI
from launcher.shared.memory_failures import spoken

_BEFORE = re.compile(
    r"^(?:>+ ?|[│┃|╭╰]+[─━]* ?|\[?(?:rank|\w+:)?\d+\]: ?|\[rank ?\d+\] ?|\([A-Za-z][\w ]*pid=\d+[^)]*\) ?"
    r"|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?)+"
)
"""Marks before a line that a program said: quotes, boxes, ranks, Ray's and Kubernetes' names."""
_BEHIND = re.compile(r"\s*[│┃─╮╯]+\s*$")
_FRAMES = (
    re.compile(r"^File (?P<file>[^\s\"][^:]*):(?P<line>\d+), in (?P<name>[\w.<>]+)"),  # IPython 8
    re.compile(r"^(?P<file>[/~.][^\s\"]*\.py|[A-Z]:\\[^\"]*\.py):(?P<line>\d+) in\s+(?P<name>[\w<>]+)"),  # rich
    re.compile(r"^(?P<file>[/~.][^\s\"]*\.py)(?P<line>) in (?P<name>[\w<>]+)\("),  # IPython 7
    re.compile(r"^(?:Cell |Input )?(?P<file>(?:In ?\[\d+\]|<ipython-input-[\w-]+>))(?:, line (?P<line>\d+))?(?: in (?P<name>[\w<>]+))?"),
)
_SOURCE = re.compile(r"^\s*(?:(?:-+>|❱)?\s*\d+\s|\^|~|\.\.\.)")
"""Lines of source around a frame of IPython's or rich's."""


def plain(text: str) -> list[str]:
    """Its lines: without colours, prefixes and boxes, each frame of a traceback as Python itself prints it."""
    return [_line(line) for line in ANSI.sub("", text).splitlines()]


def _line(line: str) -> str:
    boxed = line.lstrip().startswith(("│", "┃", "╭", "╰"))
    bare = _BEFORE.sub("", line.lstrip() if boxed else line)
    bare = _BEHIND.sub("", bare) if boxed else bare.rstrip()
    found = next((match for pattern in _FRAMES if (match := pattern.search(bare.strip()))), None)
    if found is None:
        return bare
    name = (found["name"] or "<module>").rpartition(".")[2]
    return f'  File "{found["file"]}", line {found["line"] or 0}, in {name}'


def said(lines: list[str]) -> list[str]:
    """The program's own words: the lines without the frames of tracebacks, and without the source around them."""
    return [line for line in spoken(lines) if not _SOURCE.match(line)]
