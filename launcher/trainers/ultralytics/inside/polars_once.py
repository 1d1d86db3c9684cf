"""Starts polars so that it takes the same memory each time; Ultralytics reads results.csv with it at every checkpoint.

Left to itself it starts a pool of threads for every core, an allocator's arena of its own for many of them, and reserves memory ahead:
which of them a small table comes to is luck, and two processes that did the same were seen 16 MiB apart, at their base and after it.
Here it works with one thread and one arena. What says so is polars' and jemalloc's own words, in the environment while they start and
never longer; a person's own words win.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ....worker import spare

THREADS = {"POLARS_MAX_THREADS": "1", "POLARS_ASYNC_THREAD_COUNT": "1"}
ALLOCATOR, ONE_ARENA = "_RJEM_MALLOC_CONF", "narenas:1,background_thread:false"
RUST_STACK_BYTES = 2 * 2**20
MOST_THREADS = 7
"""Those that polars then starts, five or six, and some to spare: a late one takes a stack that is there."""


def start() -> None:
    """Imports polars and reads a table, as ``BaseTrainer.read_results_csv`` does. Raises ImportError where it isn't there."""
    spare.stacks(MOST_THREADS, stack_bytes=RUST_STACK_BYTES)
    with _environment():
        import polars

        polars.read_csv(b"epoch,time\n1,2.0\n", infer_schema_length=None).to_dict(as_series=False)


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """In which polars starts small; afterwards it is what it was."""
    before = {name: os.environ.get(name) for name in (*THREADS, ALLOCATOR)}
    os.environ.update({name: word for name, word in THREADS.items() if before[name] is None})
    os.environ[ALLOCATOR] = ",".join(filter(None, (ONE_ARENA, before[ALLOCATOR])))  # of two words the last one counts
    try:
        yield
    finally:
        for name, word in before.items():  # polars itself writes in them, too
            os.environ.pop(name, None)
            os.environ.update({} if word is None else {name: word})
