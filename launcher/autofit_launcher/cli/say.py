"""Writes what a verb says to standard output and standard error. The only module of the launcher's process that prints.

With ``--json`` standard output is kept for one line of JSON; everything else goes to standard error. A stream whose reader has gone
(``autofit train ... | head -1``, a terminal that was closed) takes everything and shows nothing: a training is worth more than its screen.

On a terminal words stay whole: a line that is too long is broken between two of them. Elsewhere nothing is broken, however long. No cell
of a table is ever cut.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from autofit_launcher.common import activity
from autofit_launcher.common.words import masked, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from autofit_launcher.errors import Fault
    from autofit_launcher.machine.bars import Redrawing

_READER_GONE = (errno.EPIPE, errno.EIO)


def shown(words: str | Text, *, style: str = "") -> Text:
    """Words as they may be shown, whoever wrote them: no controls, no secrets. Where there were any, colours are lost."""
    from rich.text import Text

    fit = visible(masked(str(words)))
    return words if isinstance(words, Text) and fit == words.plain else Text(fit, style=style)


def say(console: Console, words: str | Text, *, style: str = "") -> None:
    """Prints a paragraph, on a terminal with words whole: one that is longer than a row gets one of its own."""
    text = shown(words, style=style)
    text.overflow = "ignore"
    for row in text.wrap(console, console.width) if console.is_terminal else [text]:
        row.rstrip()
        console.print(row, soft_wrap=True)


def table(console: Console, rows: Sequence[Mapping[str, str | Text]], *, left: Sequence[str] = ()) -> None:
    """Draws rows, each a cell by its column's name, as a table; as paragraphs on a narrow terminal. ``left``: columns of words."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    cells = [{name: Text(r"\n").join(shown(cell).split("\n", allow_blank=True)) for name, cell in row.items()} for row in rows]
    for name in rows[0]:
        drawn.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    for row in cells:
        drawn.add_row(*row.values())
    drawn.width = console.measure(drawn, options=console.options.update_width(10**6)).maximum
    if not console.is_terminal or drawn.width <= console.width:
        console.print(drawn, crop=False)
        return
    for row in cells:
        say(console, Text("   ").join(Text.assemble((name, "dim"), " ", cell) for name, cell in row.items()))


class _Screen(io.FileIO):
    """The bytes of our streams that end up in one place, written as long as that is possible."""

    def __init__(self, stream: TextIO | None) -> None:
        """``stream``: None where it was closed before autofit began."""
        super().__init__(os.devnull if stream is None else stream.fileno(), "w", closefd=stream is None)
        self._lock = threading.RLock()
        self._torn = False
        """A trainer's last line has no end yet."""
        self.lost: OSError | None = None
        """The error since which nothing is written any more; None while everything is."""

    def write(self, data: Any, /) -> int:
        """Writes autofit's own words; they never stand behind a trainer's last line."""
        with self._lock:
            if self._torn and data:
                self._torn = False
                self._put(b"\n")
            self._put(data)
        return len(data)

    def show(self, data: bytes) -> None:
        """Writes a trainer's own output."""
        with self._lock:
            self._put(data)
            self._torn = not data.endswith(b"\n")

    def _put(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest and self.lost is None:
                if (written := super().write(rest)) is None:  # a stream that others made non-blocking is full
                    time.sleep(0.01)
                rest = rest[written or 0 :]
        except OSError as error:
            self.lost = error


def _screen(stream: TextIO) -> _Screen | None:
    """Finds the screen behind one of our streams; None for a stream that a test or a notebook has put there."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Screen) else None


class Shown:
    """A trainer's own output on one of our streams: byte for byte, but for lines that are redrawn on a terminal too narrow for them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._redrawing: Redrawing | None = None

    def write(self, data: bytes, /) -> None:
        self._stream.flush()
        if (screen := _screen(self._stream)) is not None:
            screen.show(self._fitted(data) if self.isatty() else data)
        else:
            self._stream.buffer.write(data)

    def _fitted(self, data: bytes) -> bytes:
        """Fits redrawn lines to the terminal's width, which it asks for at every write: terminals are resized."""
        from autofit_launcher.machine.bars import WIDE, Redrawing

        columns = _columns(self._stream) or WIDE
        self._redrawing = self._redrawing or Redrawing()
        return self._redrawing.shown(data, columns=columns) if columns < WIDE else data

    def flush(self) -> None:
        self._stream.buffer.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


class Streams:
    """The process's standard output and error, made patient once, for everything in it that prints (Hydra and rich, too)."""

    def __init__(self) -> None:
        self._out = _Screen(sys.stdout)
        error = self._out if _same(sys.stdout, sys.stderr) else _Screen(sys.stderr)
        sys.stdout, sys.stderr = _patient(sys.stdout, self._out), _patient(sys.stderr, error)

    def close(self) -> None:
        """Writes what is left; a standard output that was lost to something else than its reader (a full disk) is told."""
        sys.stdout.flush()
        if self._out.lost is not None and self._out.lost.errno not in _READER_GONE:
            print(f"autofit: standard output can't be written: {self._out.lost.strerror}", file=sys.stderr)
        sys.stderr.flush()


def _same(one: TextIO | None, other: TextIO | None) -> bool:
    """Tells whether two streams end up in one place: a terminal, or a file that both were sent to."""
    try:
        return one is not None and other is not None and os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def _patient(stream: TextIO | None, screen: _Screen) -> TextIO:
    encoding, errors = ("utf-8", None) if stream is None else (stream.encoding, stream.errors)
    if errors in (None, "strict"):
        errors = "backslashreplace"  # a name that the encoding doesn't have stops nothing either
    return io.TextIOWrapper(io.BufferedWriter(screen), encoding=encoding, errors=errors, line_buffering=screen.isatty())


class Terminal:
    """The two streams of one command line."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        """``--json`` was given: one answer is asked for."""
        self._consoles: dict[bool, Console] = {}
        activity.listen(lambda words: self.complain(f"{words} ..."))

    @property
    def is_heard(self) -> bool:
        """Somebody still reads what is shown."""
        screen = _screen(self._stream)
        return screen is None or screen.lost is None

    @property
    def _stream(self) -> TextIO:
        """The stream for everything that is shown."""
        return sys.stderr if self.as_json else sys.stdout

    @property
    def console(self) -> Console:
        """The console that views draw on."""
        return self._console(stderr=self.as_json)

    def say(self, *lines: str) -> None:
        """Prints lines for people."""
        for line in lines:
            self._print(line, self._stream)

    def complain(self, line: str) -> None:
        """Prints a line about what went wrong."""
        self._print(line, sys.stderr)

    def _print(self, line: str, stream: TextIO) -> None:
        """Prints a line, on a terminal with words whole; rich is loaded only where a line is too long."""
        line, columns = visible(masked(line)), _columns(stream)
        if columns is None or all(len(one) <= columns for one in line.split("\n")):
            print(line, file=stream, flush=True)
        else:
            say(self._console(stderr=stream is sys.stderr), line)

    def faults(self, faults: Iterable[Fault]) -> None:
        """Prints what is wrong with the input, one fault a paragraph."""
        for fault in faults:
            say(self._console(stderr=True), str(fault), style="red")

    def streams(self) -> tuple[Shown, Shown]:
        """Returns the streams on which a trainer's own standard output and error are shown."""
        return Shown(self._stream), Shown(sys.stderr)

    def record(self, record: Mapping[str, Any]) -> None:
        """Prints what ``--json`` asks for: one line that ends standard output."""
        if self.as_json:
            from autofit_launcher.common.files import plain

            sys.stderr.flush()
            print(json.dumps(plain(record, text=masked)), flush=True)

    def _console(self, *, stderr: bool) -> Console:
        """Returns the one console of a stream; what isn't a terminal is none, whatever FORCE_COLOR says."""
        from rich.console import Console

        if stderr not in self._consoles:
            screen = (sys.stderr if stderr else sys.stdout).isatty()
            self._consoles[stderr] = Console(stderr=stderr, highlight=False, force_terminal=screen)
        return self._consoles[stderr]


def _columns(stream: TextIO) -> int | None:
    """Counts a terminal's columns; None where the stream is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
