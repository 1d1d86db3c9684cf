"""Keeps the threads of OpenBLAS over a fork of ours: it ends them before every fork, and starts them again when it next needs them.

NumPy, SciPy and OpenCV bring an OpenBLAS each, and each thread's stack is 8 MiB. A trial that forks once where its run doesn't would need
so much less than its run: 7 MiB of 102 in a training by mmengine, which loads all three.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from ..shared import procfs
from . import spare

_SETTERS = (
    "openblas_set_num_threads", "openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "scipy_openblas_set_num_threads64_",
)  # fmt: skip
"""By the names that OpenBLAS itself, NumPy's wheels and SciPy's wheels give it. Setting a number of threads starts the missing ones
(``goto_set_num_threads`` in OpenBLAS's driver/others/blas_server.c)."""
_MOST_STACKS = 8
"""So many threads at once are tried to have the stacks again that glibc gave back meanwhile; it keeps 40 MiB of ended threads' stacks."""
_NEAR_BYTES = 4 << 20
"""Half a stack: what is missing beyond it is one."""


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """While open, this process may fork. Afterwards the threads of OpenBLAS that ended for it are there again, and so is every stack that
    stood ready for later threads (``spare``): what the process holds is what it would hold without the fork."""
    threads, held = _threads(), procfs.data_bytes()
    yield
    if _threads() < threads:
        _start()
        for count in range(1, _MOST_STACKS + 1):
            if procfs.data_bytes() > held - _NEAR_BYTES:
                break
            spare.stacks(count)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _start() -> None:
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if "openblas" in line}
    for path, setter in itertools.product(sorted(paths), _SETTERS):
        with contextlib.suppress(OSError, AttributeError):  # a file that is gone by now; a library that has it by another name
            library = ctypes.CDLL(path)
            getattr(library, setter)(getattr(library, setter.replace("_set_", "_get_"))())
