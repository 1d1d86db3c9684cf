"""Writes the stacks of a hanging child's processes to a file, as they tell them themselves."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from autofit_launcher.machine import process
from autofit_launcher.machine.process import Child
from autofit_launcher.shared.orders import STACKS_OF

ANSWERS_S = 2.0
"""Seconds that a process may take to tell its stacks, which it does from within whatever it hangs in."""
WHOLE_S = 0.05
"""Seconds without growth after which a dump is whole."""


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
        return f"{head}\n{_told(one.pid, told) or 'it tells no stacks'}"
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
