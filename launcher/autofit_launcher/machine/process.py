"""Runs a command as a child process in a session of its own; logs its output and returns how it ended.

On the launcher's side the only module that starts, signals or ends processes. Inside a trainer's process ``inside`` starts the person's
command, and there a child that reads a data set; ``inside.guardian`` ends what a killed launcher leaves.

Every child carries a token in its environment, so that at the end all of its descendants are found and ended, those that left
its session included.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO, Protocol

import psutil

from autofit_launcher.common import files, procfs
from autofit_launcher.common.orders import HELD, TEMPORARY
from autofit_launcher.errors import Interrupted
from autofit_launcher.machine.bars import WIDE

TOKEN = "AUTOFIT_CHILD"
_POLL_S = 0.05
_GRACE_S = 10.0
_TAIL_BYTES = 256 * 1024


class Shows(Protocol):
    """A screen or file to which a child's output is copied."""

    def write(self, data: bytes, /) -> object: ...
    def flush(self) -> None: ...
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...


class AwakeTime:
    """Seconds since the child's start, without those in which this process itself was stopped (Ctrl-Z, SIGSTOP, a scheduler)."""

    MOST_S = 5.0
    """The launcher looks at a child several times a second. Of a longer time between two looks the rest is a pause."""

    def __init__(self, now: float) -> None:
        """``now``: monotonic seconds, as in ``look``."""
        self._looked, self.seconds = now, 0.0

    def look(self, now: float) -> float:
        self.seconds += min(now - self._looked, self.MOST_S)
        self._looked = now
        return self.seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """The end of a child process, as the launcher saw it from outside."""

    returncode: int
    """Exit status as ``subprocess`` gives it: negative for a signal."""
    timed_out: bool = False
    stood_still: bool = False
    """True: it was ended because it stood still."""
    seconds: float = 0.0
    """Duration without pauses (Ctrl-Z)."""
    peak_data_bytes: int = 0
    """Most VmData seen of one of its processes: a signal may have ended it before it could report."""
    stderr_tail: str = ""
    full_disk: str = ""
    """The disk that was full then; empty if none was."""


@dataclass(slots=True)
class Child:
    """A running child. Made by ``start``; ``wait`` must be called, or ``end``."""

    process: subprocess.Popen[bytes]
    token: str
    pumps: list[threading.Thread] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    """Ends of its output that nobody reads yet: it was begun ahead."""
    words: dict[Path, bytearray] = field(default_factory=dict)
    """The end of its output by log file, kept in memory: on a full or read-only disk the log lacks the very lines that say so."""
    awake: AwakeTime = field(default_factory=lambda: AwakeTime(time.monotonic()))
    """Clock of how long it has been watched: by that it is judged."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def begins(self) -> None:
        """Shows its output, and counts its time, from now on."""
        self.awake = AwakeTime(time.monotonic())
        self.unread.clear()
        for pump in self.pumps:
            pump.start()

    def tail(self, log: Path) -> str:
        """The end of its output in that log, as text."""
        return self.words[log][-_TAIL_BYTES:].decode("utf-8", errors="replace") if log in self.words else files.tail(log)

    def send(self, number: int) -> None:
        """Sends a signal to the child's whole session; does nothing if it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def descendants(self) -> list[psutil.Process]:
        """Every living process that this child started, directly or not, itself included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get(TOKEN, "").startswith(self.token):
                    found.append(process)
        return found

    def end(self, *, grace_s: float = _GRACE_S) -> None:
        """Ends the child and everything it started: TERM, and KILL after ``grace_s``. Returns when all are gone."""
        self.send(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=grace_s)
        self.sweep()
        self.process.wait()
        for reader in self.unread:
            os.close(reader)
        _tell_guardian(f"-{self.token}")

    def sweep(self, *, but: int = 0) -> None:
        """Kills what is left of the child's descendants; ``but``: all save that one."""
        left = [one for one in self.descendants() if one.pid != but]
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs([process for process in left if process.pid != self.pid], timeout=_GRACE_S)


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdout: Path,
    stderr: Path,
    show: tuple[Shows, Shows] | None = None,
    ahead: bool = False,
) -> Child:
    """Starts ``argv``, with ``env`` added to this process's environment and its output logged to two files.

    ``ahead``: nothing of it is shown before ``Child.begins``.

    With ``show``, output also goes to those two as it comes; where one of them is a terminal, the child gets a terminal too, so that
    it draws its progress bars. That one has ``bars.WIDE`` columns at least, while ``COLUMNS`` says the width of the person's: bars are
    cut to a terminal's size, and must be whole to be read; what else is laid out (tables, rules, help) goes by ``COLUMNS``.
    """
    token = f"{os.environ.get(TOKEN, '')}/{uuid.uuid4().hex}"  # a launcher started by a launcher keeps the outer token in front
    _tell_guardian(f"+{token}")
    with contextlib.suppress(OSError):
        os.makedirs(_temporary, mode=0o700, exist_ok=True)  # a run of weeks outlives what is cleaned of /tmp
    shown: tuple[Shows | None, Shows | None] = show or (None, None)
    full_env = {**_columns(shown), **os.environ, **env, TOKEN: token, TEMPORARY: _temporary}
    sinks: list[BinaryIO] = [stdout.open("ab", buffering=0), stderr.open("ab", buffering=0)]
    sources: list[tuple[int, BinaryIO, Shows]] = []
    ends: list[int] = []
    try:
        for sink, stream in zip(sinks, shown, strict=True):
            if stream is None:
                ends.append(os.dup(sink.fileno()))
            else:
                reader, writer = _terminal(_width(stream)) if stream.isatty() else os.pipe()
                sources.append((reader, sink, stream))
                ends.append(writer)
        process = subprocess.Popen(
            list(argv), env=full_env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=ends[0], stderr=ends[1], start_new_session=True
        )
    finally:
        for end in ends:
            os.close(end)
    child = Child(process=process, token=token, unread=[reader for reader, _, _ in sources])
    for reader, sink, stream in sources:
        words = child.words[stdout if sink is sinks[0] else stderr] = bytearray()
        thread = threading.Thread(target=_pump, args=(reader, sink, stream, words), daemon=True)
        child.pumps.append(thread)
    if not sources:
        for sink in sinks:
            sink.close()
    if not ahead:
        child.begins()
    return child


def temporary() -> str:
    """The folder for what this launcher's children write for a moment."""
    return _temporary


_guardian: subprocess.Popen[bytes] | None = None
_temporary = ""
"""Folder for what this launcher's children write for a moment. The guardian removes it when the launcher is gone."""
_LONGEST = 46  # of a folder in which sockets of loader workers, in a trial's own folder there, have a path of 107 bytes at most
_guarded: set[str] = set()
"""Tokens of the children that are to be ended with us."""


def _tell_guardian(line: str) -> None:
    """Tells the process that ends our children where we can't any more (``inside.guardian``): ``+TOKEN`` begins, ``-TOKEN`` ends.

    It is started with the first of them, and anew where somebody has ended it meanwhile.
    """
    global _guardian
    (_guarded.add if line.startswith("+") else _guarded.discard)(line[1:])
    with contextlib.suppress(OSError):  # without it a launcher that is killed by -9 leaves its children; nothing else is lost
        lines = [line]
        if _guardian is None or _guardian.poll() is not None:
            _guardian, lines = _new_guardian(), [f"+{token}" for token in sorted(_guarded)]
        assert _guardian.stdin is not None
        _guardian.stdin.write("".join(f"{one}\n" for one in lines).encode())
        _guardian.stdin.flush()


def _new_guardian() -> subprocess.Popen[bytes]:
    global _temporary
    _temporary = _temporary or tempfile.mkdtemp(prefix="autofit-", dir="/tmp" if len(tempfile.gettempdir()) > _LONGEST else None)
    env = {key: value for key, value in os.environ.items() if key != HELD}
    guardian = subprocess.Popen(
        (sys.executable, "-I", str(ENTRY), "autofit_launcher.inside.guardian", TOKEN, _temporary),  # -I: nothing of a person's path
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=env, cwd="/", start_new_session=True,
    )  # fmt: skip
    atexit.register(_dismiss, guardian)
    return guardian


def _dismiss(guardian: subprocess.Popen[bytes]) -> None:
    """Lets the guardian end before this process: one that still runs then is a warning of Python's (-W error, -X dev)."""
    assert guardian.stdin is not None
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        guardian.stdin.close()
        guardian.wait(timeout=1.0)


def wait(
    child: Child,
    *,
    timeout_s: float | None = None,
    each_poll: Callable[[], None] | None = None,
    poll_s: float = _POLL_S,
    stderr: Path | None = None,
) -> Ending:
    """Waits for the child's end, ends it after ``timeout_s`` (pauses don't count), and leaves none of its descendants alive.

    Raises Interrupted (after ending everything) where ``forward_signals`` saw one that means stop.
    """
    timed_out = False
    while child.process.poll() is None:
        awake_s = child.awake.look(time.monotonic())
        if each_poll is not None:
            each_poll()
        if timeout_s is not None and awake_s > timeout_s:
            timed_out = True
            child.end(grace_s=1.0)
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=poll_s)
    seconds = child.awake.look(time.monotonic())
    child.sweep()
    for pump in child.pumps:
        pump.join(timeout=_GRACE_S)
    _tell_guardian(f"-{child.token}")
    return Ending(
        returncode=child.process.returncode,
        timed_out=timed_out,
        seconds=seconds,
        stderr_tail=child.tail(stderr) if stderr is not None else "",
    )


def ask_to_end(pid: int, *, holding: str) -> bool:
    """Sends SIGTERM to the process with this id, if it has that file open. False if it hasn't, or is gone.

    Raises PermissionError if it is another user's, or keeps its files to itself.
    """
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        handle = os.pidfd_open(pid)
        try:
            if (holds := procfs.has_open(pid, holding)) is None:
                raise PermissionError(pid)
            if holds:  # asked while the handle is held: what it stands for can't change any more
                signal.pidfd_send_signal(handle, signal.SIGTERM)
                signal.pidfd_send_signal(handle, signal.SIGCONT)  # one that Ctrl-Z has stopped hears of it now
                return True
        finally:
            os.close(handle)
    return False


@contextlib.contextmanager
def forward_signals(child: Child, *, grace_s: float = _GRACE_S, told: Callable[[str], None] | None = None) -> Iterator[None]:
    """Passes INT, TERM and HUP that the launcher gets while this is open on to the child, and raises Interrupted for them at the end.

    A second one kills at once; ``told`` hears the name of the first. Only the main thread can hold handlers; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        child.send(number if len(seen) == 1 else signal.SIGKILL)
        if len(seen) == 1:
            threading.Thread(target=_kill_later, args=(child, grace_s), daemon=True).start()
            if told is not None:  # not in here, where somebody may be in the middle of a line
                threading.Thread(target=told, args=(signal.Signals(number).name,), daemon=True).start()

    numbers = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if seen:
        child.sweep()
        raise Interrupted(signal.Signals(seen[0]).name)


def _kill_later(child: Child, grace_s: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.process.wait(timeout=grace_s)
    child.send(signal.SIGKILL)


def _width(stream: Shows) -> int:
    """Columns of a terminal."""
    with contextlib.suppress(OSError):
        return os.get_terminal_size(stream.fileno()).columns or shutil.get_terminal_size().columns
    return shutil.get_terminal_size().columns


def _columns(shown: tuple[Shows | None, Shows | None]) -> dict[str, str]:
    """COLUMNS, where the person's terminal is narrower than the child's."""
    found = next((_width(stream) for stream in shown if stream is not None and stream.isatty()), WIDE)
    return {"COLUMNS": str(found)} if found < WIDE else {}


def _terminal(columns: int) -> tuple[int, int]:
    """A pseudo-terminal of at least so many columns that passes bytes through unchanged (no \\n -> \\r\\n twice)."""
    ours, theirs = pty.openpty()
    with contextlib.suppress(OSError):
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", shutil.get_terminal_size().lines, max(columns, WIDE), 0, 0))
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    return ours, theirs


def _pump(reader: int, sink: BinaryIO, stream: Shows, words: bytearray) -> None:
    """Copies bytes until the writing end is closed, and keeps their end in ``words``. A pseudo-terminal says that by EIO."""
    shown: Shows | None = stream
    kept = True
    with contextlib.suppress(OSError), sink:
        while chunk := os.read(reader, 65536):
            words += chunk
            if len(words) > 2 * _TAIL_BYTES:
                del words[:-_TAIL_BYTES]
            if kept:
                try:
                    sink.write(chunk)
                except OSError:
                    kept = False  # a full disk: the child goes on, and is still shown
            if shown is not None:
                try:
                    shown.write(chunk)
                    shown.flush()
                except (OSError, ValueError):
                    shown = None  # our own reader has gone; the child and its log go on
    os.close(reader)


def wait_for_leftovers(folder: Path, *, timeout_s: float = 60.0) -> list[int]:
    """Waits until no process of a full run in ``folder``, started by another launcher, is left. Returns the ids of those still there."""
    until = time.monotonic() + timeout_s
    while (left := procfs.with_variable(HELD, (f"{folder}{os.sep}",))) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def output_of(argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float | None = None) -> tuple[int, str]:
    """Runs a short command; returns (exit status, output). 127 and the reason if it can't be started, 124 if it took over ``timeout_s``.

    ``env``: added to this process's environment. The output is standard error if the command failed and wrote something there.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", env={**os.environ, **(env or {})}, timeout=timeout_s)
    except OSError as error:
        return 127, str(error)
    except subprocess.TimeoutExpired as error:
        return 124, str(error)
    return done.returncode, (done.stderr or done.stdout) if done.returncode else done.stdout


def python_module(module: str, *arguments: str, python: str = sys.executable) -> tuple[str, ...]:
    """argv that runs a module of this installation, with this interpreter or one that has no autofit.

    ``-P`` keeps the working folder out of ``sys.path``: a user's ``datasets/`` there must not be taken for the package of that name.
    """
    return (python, "-P", str(ENTRY), module, *arguments)


def program(name: str) -> str:
    """The path of a program: on PATH, else beside this interpreter (an environment that isn't activated), else just its name."""
    beside = Path(sys.executable).parent / name
    return shutil.which(name) or (str(beside) if os.sep not in name and beside.is_file() else name)


def is_python(name: str) -> bool:
    """Tells whether a program is a Python, or a script for one: ``inside`` stands in no other process."""
    with contextlib.suppress(OSError), open(path := program(name), "rb") as file:
        first = file.read(200).partition(b"\n")[0]
        return os.path.basename(path).startswith("python") or (first.startswith(b"#!") and b"python" in first)
    return False


ENTRY = Path(__file__).absolute().parents[1] / "__main__.py"
"""The script that loads this installation's package, and then a module of it."""


def detach(argv: Sequence[str], *, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Starts ``argv`` in a session of its own, with all output in ``log``. It isn't ended with this process."""
    with log.open("ab", buffering=0) as words:
        return subprocess.Popen(
            list(argv), env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
        )
