"""The rank for which all others wait is named by where they stand; where that doesn't tell, none is."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from launcher.machine import process, stack_dump
from launcher.shared.orders import STACKS
from tests.helpers.places import ROOT

BACKWARD = ("/site/torch/autograd/graph.py", 824, "_engine_run_backward")
GATHERS = ("/site/torch/distributed/distributed_c10d.py", 3100, "all_gather")
READS = ("/home/me/train.py", 40, "step")
LOADS = ("/usr/lib/python3.11/selectors.py", 415, "select")
ME = ("/home/me/train.py", 12, "main")


def dump(*ranks: tuple[str, int, str] | None) -> str:
    """Of torchrun and these ranks, each with another thread; None: its stack isn't known."""
    texts = ["process 10 (sleeping): torchrun --nproc_per_node 2 train.py\nthread 10: do_wait\n"]
    for rank, frame in enumerate(ranks):
        head = f"process {11 + rank} (disk-sleep, rank {rank}): python -u train.py"
        if frame is None:
            texts.append(f"{head}\nthread {11 + rank}: futex_wait_queue\n")
            continue
        frames = [("/usr/lib/python3.11/threading.py", 324, "wait")], [frame, ME]
        threads = ["".join(f'  File "{file}", line {line} in {name}\n' for file, line, name in thread) for thread in frames]
        texts.append(f"{head}\n" + "\n".join(f"Thread 0x{at} (most recent call first):\n{text}" for at, text in enumerate(threads)))
    return "\n\n".join(texts) + "\n"


@pytest.mark.parametrize(
    ("ranks", "named"),
    [
        ((BACKWARD, ME), "rank 1 of 2 did not come to where the others wait for it: it stands in main (/home/me/train.py:12)"),
        ((BACKWARD, LOADS), "rank 1 of 2 "),
        ((BACKWARD, BACKWARD, READS, BACKWARD), "rank 2 of 4 "),
        ((READS, READS, LOADS), "rank 2 of 3 "),  # a card's ranks wait where a value is read
        ((GATHERS, BACKWARD, GATHERS), "rank 1 of 3 "),
        ((GATHERS, BACKWARD), ""),
        ((READS, LOADS), ""),
        ((BACKWARD, BACKWARD), ""),
        ((READS, LOADS, BACKWARD), ""),
        ((READS, READS, LOADS, LOADS), ""),
        ((BACKWARD, None), ""),
        ((LOADS,), ""),
    ],
)  # fmt: skip
def test_the_one_that_stands_elsewhere_is_named(ranks: tuple[tuple[str, int, str] | None, ...], named: str) -> None:
    said = stack_dump.absent(dump(*ranks))
    assert said.startswith(named) if named else said == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_tells_where_it_hangs_and_goes_on(tmp_path: Path) -> None:
    code = "import time\nfrom launcher.inside import stacks\nstacks.tell()\nprint('here', flush=True)\ndef hangs(): time.sleep(60)\nhangs()"
    told, out = tmp_path / "told", tmp_path / "out"
    env = {STACKS: str(told), "PYTHONPATH": str(ROOT), "RANK": "3"}
    child = process.start((sys.executable, "-c", code), env=env, stdout=out, stderr=tmp_path / "err")
    try:
        until = time.monotonic() + 20
        while "here" not in out.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.2)
        for _ in range(2):
            said = stack_dump.record(child, tmp_path / "stalled.txt", told=told)
            assert ", rank 3): " in said and said.count("in hangs") == 1 and said == (tmp_path / "stalled.txt").read_text()
        assert child.process.poll() is None and os.listdir(told) == [f"{child.pid}.stacks"]
    finally:
        child.end(grace_s=1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_does_not_listen_is_not_asked(tmp_path: Path) -> None:
    child = process.start((sys.executable, "-c", "import time; time.sleep(60)"), env={}, stdout=tmp_path / "out", stderr=tmp_path / "err")
    try:
        assert f"process {child.pid} (" in stack_dump.record(child, tmp_path / "stalled.txt", told=tmp_path)
        time.sleep(0.3)
        assert child.process.poll() is None
    finally:
        child.end(grace_s=1.0)
