"""Writes what a verb says to standard output and standard error. The only module of the launcher's process that prints.

With ``--json`` standard output is kept for one line of JSON; everything else goes to standard error. A stream whose reader has gone
(``autofit train ... | head -1``, a terminal that was closed) takes everything and shows nothing: a training is worth more than its screen.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

from launcher.shared import activity

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.cli.launch_view import Display
    from launcher.cli.runs_view import Board
    from launcher.cli.spinner import Spinner
    from launcher.errors import Fault
    from launcher.ladder.rungs import Ladder
    from launcher.machine.bars import Redrawing
    from launcher.pretended.plan import OnCard
    from launcher.shared.activity import Activity


class _Patient(io.RawIOBase):
    """A stream's bytes, written as long as that is possible."""

    def __init__(self, stream: io.RawIOBase) -> None:
        self._stream = stream
        self.lost: OSError | None = None
        """Why nothing is written any more."""

    def write(self, data: Any) -> int | None:
        if self.lost is None:
            try:
                return self._stream.write(data)
            except OSError as error:
                self.lost = error
        return len(data)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()


class _Place:
    """Where the last character of a screen stands. Both streams of a terminal share one, and whoever writes to it holds the lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.torn = False
        """A trainer's last line has no end yet."""


class _Words(io.TextIOWrapper):
    """autofit's own words on a stream: they never stand behind a trainer's last line."""

    place: _Place

    def write(self, words: str, /) -> int:
        with self.place.lock:
            if self.place.torn and words:
                self.place.torn = False
                super().write("\n")
            return super().write(words)


class Shown:
    """A trainer's own output on one of our streams: byte for byte, but for lines that are redrawn on a terminal too narrow for them."""

    def __init__(self, words: TextIO) -> None:
        self._words = words
        self._place = words.place if isinstance(words, _Words) else _Place()
        self._redrawing: Redrawing | None = None

    def write(self, data: bytes, /) -> None:
        with self._place.lock:
            self._words.flush()
            self._words.buffer.write(self._fitted(data))
            self._place.torn = not data.endswith(b"\n")

    def flush(self) -> None:
        with self._place.lock:
            self._words.buffer.flush()

    def isatty(self) -> bool:
        return self._words.isatty()

    def fileno(self) -> int:
        return self._words.fileno()

    def _fitted(self, data: bytes) -> bytes:
        """Asked at every write: terminals are resized."""
        if not self.isatty():
            return data
        from launcher.machine.bars import WIDE, Redrawing

        columns = _columns(self._words) or WIDE
        self._redrawing = self._redrawing or Redrawing()
        return self._redrawing.shown(data, columns=columns) if columns < WIDE else data


_READER_GONE = (errno.EPIPE, errno.EIO)


class Streams:
    """The process's standard output and error, made patient once, for everything in it that prints (Hydra and rich, too)."""

    def __init__(self) -> None:
        place = _Place()
        shared = _same(sys.stdout, sys.stderr)
        sys.stdout, self._out = _patient(sys.stdout, place)
        sys.stderr, _ = _patient(sys.stderr, place if shared else _Place())

    def close(self) -> None:
        """Writes what is left; a standard output that was lost to something else than its reader (a full disk) is told."""
        sys.stdout.flush()
        if self._out.lost is not None and self._out.lost.errno not in _READER_GONE:
            print(f"autofit: standard output can't be written: {self._out.lost.strerror}", file=sys.stderr)
        sys.stderr.flush()


def _same(one: TextIO | None, other: TextIO | None) -> bool:
    """Whether two streams end up in one place: a terminal, or a file that both were sent to."""
    try:
        return one is not None and other is not None and os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def _patient(stream: TextIO | None, place: _Place) -> tuple[TextIO, _Patient]:
    if stream is None:  # it was closed before autofit began
        raw, encoding, errors = _Patient(io.FileIO(os.devnull, "w")), "utf-8", "strict"
    else:
        buffer: Any = stream.buffer  # with python -u that is the raw stream itself
        raw, encoding, errors = _Patient(getattr(buffer, "raw", buffer)), stream.encoding, stream.errors or "strict"
    if errors == "strict":
        errors = "backslashreplace"  # a name that the encoding doesn't have stops nothing either
    words = _Words(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=raw.isatty())
    words.place = place
    return words, raw


class Terminal:
    """The two streams of one command line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._consoles: dict[bool, Console] = {}
        self._spinner: Spinner | None = None
        activity.listen(self._doing)

    @property
    def as_json(self) -> bool:
        """``--json`` was given: one answer is asked for."""
        return self._as_json

    @property
    def is_heard(self) -> bool:
        """Somebody still reads what is shown."""
        shown = sys.stderr if self._as_json else sys.stdout
        raw = getattr(getattr(shown, "buffer", None), "raw", None)
        return not isinstance(raw, _Patient) or raw.lost is None

    def say(self, *lines: str) -> None:
        """Lines for people."""
        self._print(lines, sys.stderr if self._as_json else sys.stdout)

    def labelled(self, label: str, words: str, *, width: int) -> None:
        """A label in so many columns, and a paragraph beside it."""
        self._print((f"{label:<{width}}{words}",), sys.stderr if self._as_json else sys.stdout, hang=width)

    def complain(self, line: str) -> None:
        """A line about what went wrong."""
        self._print((line,), sys.stderr)

    def apart(self) -> AbstractContextManager[object]:
        """While open, what others print in this process goes to standard error."""
        return redirect_stdout(sys.stderr)

    def _print(self, lines: Sequence[str], stream: TextIO, *, hang: int | None = None) -> None:
        """On a terminal with words whole; rich is loaded only where a line is too long, or something is drawn already."""
        columns = _columns(stream)
        if columns is None or (self._spinner is None and all(len(one) <= columns for line in lines for one in line.split("\n"))):
            print(*lines, sep="\n", file=stream, flush=True)
            return
        from launcher.cli import prose

        for line in lines:
            below = len(line) - len(line.lstrip()) if hang is None else hang
            prose.say(self._console(stderr=stream is sys.stderr), line, hang=below)

    def asked(self, question: str) -> str | None:
        """What the person at the terminal answers; None where nobody is there to be asked."""
        if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
            return None
        print(question, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline()

    def faults(self, faults: Iterable[Fault]) -> None:
        """What is wrong with the input."""
        from launcher.cli import prose

        prose.faults(self._console(stderr=True), faults)

    def display(self) -> Display:
        """The tables of a launch."""
        from launcher.cli.launch_view import Display

        return Display(self._console(stderr=self._as_json))

    def ladder(self, ladder: Ladder) -> None:
        """Every rung of it."""
        from launcher.cli import rungs_view

        rungs_view.ladder(ladder, self._console(stderr=self._as_json))

    def board(self) -> Board:
        """What is going on in runs."""
        from launcher.cli.runs_view import Board

        return Board(self._console(stderr=self._as_json))

    def plan(self, cards: Sequence[OnCard]) -> None:
        """Which rung fits which card."""
        from launcher.cli import plan_view

        plan_view.show(cards, self._console(stderr=self._as_json))

    def streams(self) -> tuple[Shown, Shown]:
        """Where a trainer's own standard output and error are shown."""
        return Shown(sys.stderr if self._as_json else sys.stdout), Shown(sys.stderr)

    def record(self, record: Mapping[str, Any]) -> None:
        """What ``--json`` asks for: one line that ends standard output."""
        if self._as_json:
            from launcher.shared.files import plain

            sys.stderr.flush()
            print(json.dumps(plain(record)), flush=True)

    def _console(self, *, stderr: bool) -> Console:
        """One for each stream: what is drawn in place is known to whatever else is printed there.

        ``FORCE_COLOR``, which notebooks and some CI set, gives colours, and no lines that are drawn anew: only a terminal can do that.
        """
        from rich.console import Console

        if stderr not in self._consoles:
            screen = (sys.stderr if stderr else sys.stdout).isatty()
            colours: Any = "standard" if os.environ.get("FORCE_COLOR") and not screen else "auto"
            self._consoles[stderr] = Console(stderr=stderr, highlight=False, force_terminal=screen, color_system=colours)
        return self._consoles[stderr]

    def _doing(self, activity: Activity | None) -> None:
        from launcher.cli.spinner import Spinner

        if self._spinner is None and activity is not None:
            self._spinner = Spinner(self._console(stderr=self._as_json or not sys.stdout.isatty()))
        if self._spinner is not None:
            self._spinner(activity)


def _columns(stream: TextIO) -> int | None:
    """Of a terminal; None where it is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
