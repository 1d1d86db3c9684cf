"""A program in a real pseudo-terminal -> what stands on the screen, by a terminal emulator (pyte)."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyte

from tests.helpers.places import ROOT

ROWS, ENDLESS = 24, 1000


def screen_of(said: bytes, *, columns: int) -> list[str]:
    """The rows of a screen that is high enough for all of it, down to the last that isn't empty, without their trailing blanks."""
    screen = pyte.Screen(columns, sum(2 + len(line) // columns for line in said.split(b"\n")))
    screen.set_mode(pyte.modes.LNM)  # what a terminal's driver does: \n -> \r\n
    stream = pyte.ByteStream(screen)
    stream.feed(said)
    shown = [row.rstrip() for row in screen.display]
    while shown and not shown[-1]:
        shown.pop()
    return shown


@dataclass(frozen=True)
class Shown:
    """What a program wrote to its terminal."""

    status: int
    said: bytes
    columns: int

    @property
    def rows(self) -> list[str]:
        """Everything that stands on the screen, and has scrolled out of it."""
        return screen_of(self.said, columns=self.columns)

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def lines(self) -> list[str]:
        """The same on a screen that is wide enough for all: one longer than ``columns`` was broken by the terminal, wherever that was."""
        return screen_of(self.said, columns=ENDLESS)

    @property
    def too_long(self) -> list[str]:
        return [line for line in self.lines if len(line) > self.columns]


def shown(argv: Sequence[str], *, columns: int = 80, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 300.0) -> Shown:
    """Runs ``argv`` with a terminal of so many columns for all three streams, to its end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    child = subprocess.Popen(
        list(argv), cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True, start_new_session=True,
        env={**plain_environment(), "TERM": "xterm-256color", **(env or {})},
    )  # fmt: skip
    os.close(theirs)
    said, until = b"", time.monotonic() + timeout_s
    while time.monotonic() < until:
        ready, _, _ = select.select([ours], [], [], 0.2)
        try:
            said += os.read(ours, 65536) if ready else b""
        except OSError:  # the last one has closed it
            break
    os.close(ours)
    if child.poll() is None and time.monotonic() >= until:
        child.kill()
    return Shown(child.wait(), said, columns)


def plain_environment() -> dict[str, str]:
    """This process's, without what says how wide or how colourful a screen is."""
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR", "CI")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def autofit(*words: str, columns: int = 80, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 300.0) -> Shown:
    """A command line of autofit's."""
    return shown((sys.executable, "-m", "autofit_launcher", *words), columns=columns, cwd=cwd, env=env, timeout_s=timeout_s)
