"""What a verb says -> standard output and standard error. The only module of the launcher's process that prints.

With ``--json`` standard output is kept for one line of JSON; everything else goes to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.display import Display
    from launcher.errors import Fault


class Terminal:
    """The two streams of one command line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

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
