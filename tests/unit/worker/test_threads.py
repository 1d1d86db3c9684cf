"""Threads that are soon gone are counted as they are started."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from multiprocessing.pool import ThreadPool

import pytest

from launcher.worker.threads import Threads


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    plain = threading.Thread.start
    yield
    threading.Thread.start = plain  # type: ignore[method-assign]


def test_a_pool_that_is_soon_gone_counts_with_all_of_its_threads() -> None:
    threads, there = Threads(), len(os.listdir("/proc/self/task"))
    threads.watch()
    assert threads.fact() == {}, "none was started"
    with ThreadPool(5) as pool:
        pool.map(abs, range(20))
    (fact,) = threads.fact().values()
    assert fact == {"process": os.getpid(), "most": there + 8}, "five, and the three by which a pool is run"
