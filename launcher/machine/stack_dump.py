"""Writes the stacks of a hanging child's processes to a file: by py-spy if it is installed, else what the kernel tells."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import psutil

from launcher.machine import install, process
from launcher.machine.process import Child

LOOK_S = 20.0
"""Seconds after which a look at one process is given up."""


def record(child: Child, path: Path) -> str:
    """Writes the stacks to ``path`` and returns them. What can't be seen is left out."""
    said = "\n\n".join(_of(one) for one in child.descendants()) + "\n"
    with contextlib.suppress(OSError):
        path.write_text(said, encoding="utf-8")
    return said


def _of(one: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        head = f"process {one.pid} ({one.status()}): {' '.join(one.cmdline())[:300]}"
        return f"{head}\n{_python_stack(one.pid) or _kernel_stack(one.pid)}"
    return f"process {one.pid} is gone"


def _python_stack(pid: int) -> str:
    """py-spy's words; nothing where it isn't installed or may not look."""
    beside = str(Path(sys.executable).parent)
    program = shutil.which("py-spy") or shutil.which("py-spy", path=beside)
    if program is None:
        return ""
    status, said = process.output_of((program, "dump", "--nonblocking", "--pid", str(pid)), timeout_s=LOOK_S)
    return said if status == 0 else ""


def _kernel_stack(pid: int) -> str:
    """What each thread waits for in the kernel (proc_pid_wchan(5))."""
    lines = [f"(py-spy is not installed; it tells the Python stack: {install.extra('stacks')})"]
    with contextlib.suppress(OSError):
        for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
            waits = Path(f"/proc/{pid}/task/{thread}/wchan").read_text(encoding="ascii", errors="replace")
            lines.append(f"thread {thread}: {waits or 'running'}")
    return "\n".join(lines)
