"""Turns a log as people have it (notebook, rich's boxes, several ranks, redrawn bars, quoted in a mail) into plain lines. Pure."""

from __future__ import annotations

import re

from launcher.shared.memory_failures import spoken

_CONTROLS = re.compile(
    r"(?:\x1b|\\u001b|\\x1b|\^\[)(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)|\[\d{1,2}(?:;\d{1,3})*m"
    r"|</?(?:span|pre|div|code|p|br)\b[^<>]*>|[\x00-\x08\x0e-\x1f\x7f]"
)
"""A notebook's HTML, and colours, also those whose first character a terminal or a notebook's file wrote in other letters, or lost."""
_TYPED = str.maketrans("“”„«»\u2018\u2019\xa0", '"""""\'\' ')
"""What mail programs and word processors make of quotes."""
_LONGEST, MOST_LINES = 1000, 20_000
"""Characters of a line, which is broken there, and lines of a log's end: a longer past says nothing of its failure."""
_BEFORE = re.compile(
    r"^(?:>+ ?|[*`]{1,3} ?|[-•] (?=\w)|[│┃|╭╰]+[─━]* ?"
    r"|\[?[A-Za-z]*:?\d+\]: ?|\[\d+,\d+\]<\w+>: ?|\[rank ?\d+\] ?|\([A-Za-z][\w ]*pid=\d+[^)]*\) ?"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]? ?(?:[|:-]? ?(?:[A-Z]{4,8}|std(?:out|err)(?: [FP])?)\b ?[|:-]? ?)?)+"
)
"""Marks before a line that a program said: quotes, bullets, boxes, ranks, times, Ray's and Kubernetes' names."""
_BEHIND = re.compile(r"\s*[│┃─╮╯]+\s*$")
_FRAMES = (
    re.compile(r"^File (?P<file>[^\s\"][^:]*):(?P<line>\d+), in (?P<name>[\w.<>]+)"),  # IPython 8
    re.compile(r"^(?P<file>[/~.][^\s\"]*\.py|[A-Z]:\\[^\"]*\.py):(?P<line>\d+) in\s+(?P<name>[\w<>]+)"),  # rich
    re.compile(r"^(?P<file>[/~.][^\s\"]*\.py)(?P<line>) in (?P<name>[\w<>]+)\("),  # IPython 7
    re.compile(r"^(?:Cell |Input )?(?P<file>(?:In ?\[\d+\]|<ipython-input-[\w-]+>))(?:, line (?P<line>\d+))?(?: in (?P<name>[\w<>]+))?"),
)
_JOINED = re.compile(r'(?<=\S) +(?=File "[^"]+", line \d+, in |[\w.]+(?:Error|Exception): )')
"""Where a traceback that somebody pasted as one line had its lines' ends."""
_PARTED = re.compile(r"[\s>]*".join("outofmemory"))
"""The words by which it is known, wherever a terminal broke them."""
_SOURCE = re.compile(r"^\s*(?:(?:-+>|❱)?\s*\d+\s|\^|~|\.\.\.)")
"""Lines of source around a frame of IPython's or rich's."""


def plain(text: str) -> list[str]:
    """Its lines: without colours, prefixes and boxes, each frame of a traceback as Python itself prints it."""
    lines = _CONTROLS.sub("", text).translate(_TYPED).splitlines()[-MOST_LINES:]
    pieces = (line[at : at + _LONGEST] for line in lines for at in range(0, len(line) or 1, _LONGEST))
    return _PARTED.sub(lambda found: "out of memory" + "\n" * found[0].count("\n"), "\n".join(map(_line, pieces))).splitlines()


def _line(line: str) -> str:
    boxed = line.lstrip().startswith(("│", "┃", "╭", "╰"))
    bare = _BEFORE.sub("", line.lstrip() if boxed else line)
    bare = _BEHIND.sub("", bare) if boxed else bare.rstrip(" \t*`")
    found = next((match for pattern in _FRAMES if (match := pattern.search(bare.strip()))), None)
    if found is None:
        return _JOINED.sub("\n", bare) if ' File "' in bare.lstrip() else bare
    name = (found["name"] or "<module>").rpartition(".")[2]
    return f'  File "{found["file"]}", line {found["line"] or 0}, in {name}'


def said(lines: list[str]) -> list[str]:
    """The program's own words: the lines without the frames of tracebacks, and without the source around them."""
    return [line for line in spoken(lines) if not _SOURCE.match(line)]
