"""Writes the stacks of a hanging child's processes to a file: what they tell themselves, else what the kernel does."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

import psutil

from launcher.machine import process
from launcher.machine.process import Child
from launcher.shared.orders import STACKS_OF

ANSWERS_S = 2.0
"""Seconds that a process may take to tell its stacks, which it does from within whatever it hangs in."""
WHOLE_S = 0.05
"""Seconds without growth after which a dump is whole."""
_OF_RANK = re.compile(r"^process \d+ \([\w -]+, rank (\d+)\): .*\n((?:(?!process \d).*\n)*)", re.MULTILINE)
_FRAME = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')
_WAITS = re.compile(r"torch/distributed/|torch/nn/parallel/distributed\.py|_engine_run_backward$")
"""Innermost frames in which a rank waits for the others: a collective's call, or the engine of a backward pass that exchanges gradients."""


def record(child: Child, path: Path, *, told: Path) -> str:
    """Writes the stacks to ``path`` and returns them. What can't be seen is left out.

    ``told``: the folder in which processes that are asked tell theirs (``inside.stacks``).
    """
    said = "\n\n".join(_of(one, told) for one in child.descendants()) + "\n"
    with contextlib.suppress(OSError):
        path.write_text(said, encoding="utf-8")
    return said


def _of(one: psutil.Process, told: Path) -> str:
    with contextlib.suppress(psutil.Error):
        rank = f", rank {number}" if (number := one.environ().get("RANK")) else ""
        head = f"process {one.pid} ({one.status()}{rank}): {' '.join(one.cmdline())[:300]}"
        return f"{head}\n{_told(one.pid, told) or _kernel_stack(one.pid)}"
    return f"process {one.pid} is gone"


def _told(pid: int, folder: Path) -> str:
    """Stacks that the process tells of itself, in whatever it hangs; empty if it doesn't listen."""
    path, said, until = folder / f"{pid}{STACKS_OF}", "", time.monotonic() + ANSWERS_S
    with contextlib.suppress(OSError):
        os.truncate(path, 0)  # it isn't there where nobody listens, and the signal would end the process
        process.ask_for_stacks(pid)
        while time.monotonic() < until:
            time.sleep(WHOLE_S)
            before, said = said, path.read_text(encoding="utf-8", errors="replace")
            if said and said == before:
                break
    return said


def absent(said: str) -> str:
    """Which rank did not come to where all others wait for it, and where it stands, by their stacks; empty if that can't be told."""
    at: dict[str, tuple[str, str, str]] = {}
    """Rank -> its innermost frame: file, line, function."""
    for rank, stack in _OF_RANK.findall(said):
        _, _, main = stack.rpartition("(most recent call first):")
        if rank not in at and (frames := _FRAME.findall(main)):
            at[rank] = frames[0]
    elsewhere = [rank for rank, frame in at.items() if not _WAITS.search(" ".join(frame))]
    if len(elsewhere) != 1 and len(at) > 2:  # a card's ranks wait wherever a value is read
        places = list(at.values())
        elsewhere = [rank for rank, frame in at.items() if places.count(frame) == 1 and len(set(places)) == 2]
    if len(at) < 2 or len(elsewhere) != 1:
        return ""
    (rank,) = elsewhere
    file, line, function = at[rank]
    return f"rank {rank} of {len(at)} did not come to where the others wait for it: it stands in {function} ({file}:{line})"


def _kernel_stack(pid: int) -> str:
    """The kernel function that each thread waits in (proc_pid_wchan(5))."""
    lines = []
    with contextlib.suppress(OSError):
        for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
            waits = Path(f"/proc/{pid}/task/{thread}/wchan").read_text(encoding="ascii", errors="replace")
            lines.append(f"thread {thread}: {waits or 'running'}")
    return "\n".join(lines)
