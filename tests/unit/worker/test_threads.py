"""Threads and processes that are soon gone are counted as they are started."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.pool import ThreadPool
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from launcher.shared.report import THREADS
from launcher.worker.threads import Threads


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    plain, process = threading.Thread.start, BaseProcess.start
    yield
    threading.Thread.start, BaseProcess.start = plain, process  # type: ignore[method-assign]


def test_a_pool_that_is_soon_gone_counts_with_all_of_its_threads() -> None:
    threads, there = Threads(), len(os.listdir("/proc/self/task"))
    threads.watch()
    assert threads.fact() == {}, "none was started"
    with ThreadPool(5) as pool:
        pool.map(abs, range(20))
    (fact,) = threads.fact().values()
    assert fact == {"process": os.getpid(), "most": there + 8, "below": 0, "children": 0}, "five, and the three by which a pool is run"


def test_workers_count_with_the_threads_that_earlier_ones_have_by_then() -> None:
    threads, forked = Threads(), get_context("fork")
    threads.watch()
    done, first = forked.Event(), forked.Queue()
    workers = [forked.Process(target=_waits, args=(first, done)) for _ in range(5)]
    for worker in workers[:2]:
        worker.start()
    assert first.get() == first.get() == "a word, by a thread of its own"
    for worker in workers[2:]:
        worker.start()
    done.set()
    for worker in workers:
        worker.join()
    fact = threads.fact()[THREADS]
    assert (fact["children"], fact["below"]) == (5, 10), "a queue is fed by a thread"


def _waits(queue: Any, done: Any) -> None:
    queue.put("a word, by a thread of its own")
    done.wait()
