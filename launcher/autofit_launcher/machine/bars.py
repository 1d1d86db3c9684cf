"""Fits progress bars drawn for a wide terminal to the person's narrower one, each redrawn line on one row. Pure.

The trainer gets a terminal of at least ``WIDE`` columns, however narrow the user's is: libraries cut their bars to the terminal, and a
cut bar tells neither step nor loss nor time left. Lines that end with a newline are passed on unchanged, and wrap.
"""

from __future__ import annotations

import codecs
import re

from rich.cells import cell_len

WIDE = 200
"""Columns that hold the longest bar known: Ultralytics' row of a pose training takes 145."""
_PIECES = re.compile(r"(\r*\n|\r|\x1b\[[0-9;?]*[A-Za-z])")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BAR = re.compile(r"(?<=%\|)[^|]+(?=\|)|[━─╸╺]{4,}|[█▉▊▋▌▍▎▏#]{4,} *|(?<=\[)[=>.#-]{4,}(?=\])")
_LEAST_BAR = 4


class Redrawing:
    """One stream of a trainer's, as it comes in pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._line = ""
        """Text on the line that the cursor is on, where that is drawn again."""
        self._redrawn = False
        """The line was begun by a carriage return or a cursor's move: it will be drawn again, and must keep to one row."""

    def shown(self, chunk: bytes, *, columns: int) -> bytes:
        """Gives what to write for ``chunk`` to a screen of ``columns``."""
        pieces = _PIECES.split(self._decoder.decode(chunk))
        return "".join(self._piece(piece, columns) for piece in pieces if piece).encode("utf-8", "surrogateescape")

    def _piece(self, piece: str, columns: int) -> str:
        if piece.endswith("\n"):
            self._line, self._redrawn = "", False
        elif piece == "\r" or (_ESCAPE.fullmatch(piece) and piece[-1] != "m"):
            self._line, self._redrawn = "", self._redrawn or piece[-1] not in "hl"
        elif self._redrawn:
            self._line += piece
            if _cells(self._line) >= columns:
                return f"\r{fitted(self._line, columns - 1)}\x1b[K"
        return piece


def fitted(line: str, columns: int) -> str:
    """The line shortened to ``columns``: first the bar, then blanks; at last its end is cut."""
    line = line.rstrip()
    for shorter in (_shorter_bar, lambda line, columns: re.sub(" +", " ", line.lstrip())):
        if _cells(line) <= columns:
            return line
        line = shorter(line, columns)
    return line if _cells(line) <= columns else _ESCAPE.sub("", line)[: columns - 1] + "…"


def _shorter_bar(line: str, columns: int) -> str:
    """The longest bar gives up what is too much, its filled part in proportion."""
    bar = max(_BAR.finditer(line), key=lambda found: len(found[0]), default=None)
    if bar is None:
        return line
    length = max(min(_LEAST_BAR, len(bar[0])), len(bar[0]) - (_cells(line) - columns))
    return line[: bar.start()] + "".join(bar[0][at * len(bar[0]) // length] for at in range(length)) + line[bar.end() :]


def _cells(line: str) -> int:
    return cell_len(_ESCAPE.sub("", line))
