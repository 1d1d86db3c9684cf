"""What a verb says -> standard output and standard error. The only module of the launcher's process that prints.

With ``--json`` standard output is kept for one line of JSON; everything else goes to standard error. A stream whose reader has gone
(``autofit train ... | head -1``, a terminal that was closed) takes everything and shows nothing: a training is worth more than its screen.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.board import Board
    from launcher.display import Display
    from launcher.errors import Fault
    from launcher.forecast.plan import Plan


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


_READER_GONE = (errno.EPIPE, errno.EIO)


class Streams:
    """The process's standard output and error, made patient once, for everything in it that prints (Hydra and rich, too)."""

    def __init__(self) -> None:
        sys.stdout, self._out = _patient(sys.stdout)
        sys.stderr, _ = _patient(sys.stderr)

    def close(self) -> None:
        """Writes what is left; a standard output that was lost to something else than its reader (a full disk) is told."""
        sys.stdout.flush()
        if self._out.lost is not None and self._out.lost.errno not in _READER_GONE:
            print(f"autofit: standard output can't be written: {self._out.lost.strerror}", file=sys.stderr)
        sys.stderr.flush()


def _patient(stream: TextIO | None) -> tuple[TextIO, _Patient]:
    if stream is None:  # it was closed before autofit began
        raw, encoding, errors = _Patient(io.FileIO(os.devnull, "w")), "utf-8", "strict"
    else:
        buffer: Any = stream.buffer  # with python -u that is the raw stream itself
        raw, encoding, errors = _Patient(getattr(buffer, "raw", buffer)), stream.encoding, stream.errors or "strict"
    if errors == "strict":
        errors = "backslashreplace"  # a name that the encoding doesn't have stops nothing either
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=raw.isatty()), raw


class Terminal:
    """The two streams of one command line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

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
        print(*lines, sep="\n", file=sys.stderr if self._as_json else sys.stdout, flush=True)

    def complain(self, line: str) -> None:
        """A line about what went wrong."""
        print(line, file=sys.stderr, flush=True)

    def faults(self, faults: Iterable[Fault]) -> None:
        """What is wrong with the input."""
        from launcher.display import Display

        Display(_console(stderr=True)).faults(faults)

    def display(self) -> Display:
        """The tables of a launch."""
        from launcher.display import Display

        return Display(_console(stderr=self._as_json))

    def board(self) -> Board:
        """What is going on in runs."""
        from launcher.board import Board

        return Board(_console(stderr=self._as_json))

    def plan(self, plan: Plan) -> None:
        """What is predicted of a ladder."""
        from launcher.forecast import table

        table.show(plan, _console(stderr=self._as_json))

    def streams(self) -> tuple[BinaryIO, BinaryIO]:
        """Where a trainer's own standard output and error are shown, byte for byte."""
        sys.stdout.flush()
        return (sys.stderr.buffer if self._as_json else sys.stdout.buffer, sys.stderr.buffer)

    def record(self, record: Mapping[str, Any]) -> None:
        """What ``--json`` asks for: one line that ends standard output."""
        if self._as_json:
            from launcher.contract.files import plain

            sys.stderr.flush()
            print(json.dumps(plain(record)), flush=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 160)
