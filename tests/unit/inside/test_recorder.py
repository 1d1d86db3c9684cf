"""The recorder: what it writes, when, and what it makes of exceptions and memory."""

from __future__ import annotations

import mmap
import multiprocessing
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy
import pytest

from autofit_launcher.common import procfs
from autofit_launcher.common.orders import Orders
from autofit_launcher.common.procfs import data_bytes
from autofit_launcher.common.report import VERSIONS, Phase, TrialReport
from autofit_launcher.inside.budget import Taken
from autofit_launcher.inside.meters import CpuMeter
from autofit_launcher.inside.recorder import Recorder, failure_of
from tests.helpers.places import ROOT

MIB = 2**20


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(module="none", folder=str(tmp_path), device="cpu", cap_bytes=512 * MIB, accumulation=2, payload={})


def read(orders: Orders) -> TrialReport:
    report = TrialReport.read(orders.report_path)
    assert report is not None
    return report


def test_each_phase_is_closed_with_its_seconds_and_batches(orders: Orders) -> None:
    clock = Clock()
    recorder = Recorder(orders, clock)
    clock.now += 3
    recorder.phase(Phase.TRAIN)
    for _ in range(4):
        clock.now += 2
        recorder.batch()
    recorder.phase(Phase.VALIDATE)
    clock.now += 5
    recorder.batch()
    recorder.phase(Phase.DONE)
    uses = read(orders).uses
    assert [(use.phase, use.seconds, use.batches) for use in uses] == [("start", 3, 0), ("train", 8, 4), ("validate", 5, 1)]
    assert (read(orders).train_batches, read(orders).validation_batches, read(orders).train_again_batches) == (4, 1, 0)


def test_what_was_observed_noted_and_swallowed_is_in_the_report(orders: Orders) -> None:
    recorder = Recorder(orders)
    recorder.observe(micro_batch=4)
    recorder.observe(image_size=640)
    recorder.fact(optimizer="AdamW")
    recorder.note("once")
    recorder.note("once")
    recorder.measured(train_samples=12, growth_bytes_per_batch=1.5)
    recorder.swallowed("the assigner went on alone")
    report = read(orders)  # a swallowed failure is written at once
    assert report.observed == {"micro_batch": 4, "image_size": 640}
    assert (report.notes, report.swallowed, report.facts["optimizer"]) == (("once",), ("the assigner went on alone",), "AdamW")
    assert (report.train_samples, report.growth_bytes_per_batch) == (12, 1.5)


def test_the_report_tells_what_the_process_has_loaded_and_nothing_is_loaded_for_it(orders: Orders) -> None:
    child = "import sys, numpy\nfrom autofit_launcher.inside import recorder\n"
    child += "print(recorder.versions(), {'torch', 'datasets'} & {*sys.modules})"
    said = subprocess.run([sys.executable, "-c", child], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == f"{ {'python': platform.python_version(), 'numpy': numpy.__version__} } set()\n"
    Recorder(orders).write()
    assert read(orders).facts[VERSIONS]["python"] == platform.python_version()


def test_a_failure_holds_the_whole_chain_of_exceptions_also_of_one_that_bites_its_tail() -> None:
    first, second, third = MemoryError("no room for the buffer"), KeyError("during handling"), RuntimeError("saving failed")
    first.__cause__, second.__context__, third.__cause__ = third, first, second
    failure = failure_of(third)
    assert failure.types[:2] == ("RuntimeError", "Exception") and {"KeyError", "LookupError", "MemoryError"} <= set(failure.types)
    said = ["RuntimeError: saving failed", "KeyError: 'during handling'", "MemoryError: no room for the buffer"]
    assert failure.message.splitlines() == said


def private(size: int) -> mmap.mmap:
    """Memory of its own, whatever room earlier tests have left in the heap."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def hold(size: int, seen: Any) -> None:
    with private(size):
        seen.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="the CPU meter reads /proc")
class TestCpuMeter:
    def test_a_phase_is_charged_with_the_memory_it_took_and_the_next_is_not(self, orders: Orders) -> None:
        recorder = Recorder(orders)
        recorder.budget(Taken(cap_bytes=512 * MIB, ceiling_bytes=512 * MIB, base_bytes=data_bytes()))
        recorder.phase(Phase.TRAIN)
        with private(64 * MIB) as taken:
            taken[::4096] = b"x" * len(taken[::4096])
            recorder.batch()
        recorder.phase(Phase.VALIDATE)
        recorder.phase(Phase.DONE)
        train, validate = (next(use for use in recorder.report().uses if use.phase == phase) for phase in ("train", "validate"))
        assert 60 * MIB < train.reserved_bytes < 90 * MIB
        assert 55 * MIB < train.allocated_bytes < 90 * MIB
        assert train.device_bytes == train.reserved_bytes
        assert validate.reserved_bytes < 30 * MIB

    def test_a_look_that_comes_late_is_the_last_phases(self, monkeypatch: pytest.MonkeyPatch) -> None:
        begun = threading.Event()

        def looked(pid: int) -> int:
            first, _ = not begun.is_set(), begun.set()
            time.sleep(0.2 if first else 0)
            return 96 * MIB if first else MIB

        monkeypatch.setattr(procfs, "data_bytes_now", looked)
        meter = CpuMeter(0)
        begun.wait()
        meter.reset()
        time.sleep(0.4)
        meter.close()
        assert meter.peaks()["reserved_bytes"] == MIB

    def test_what_a_forked_worker_takes_counts_by_itself(self) -> None:
        """RLIMIT_DATA holds each process by itself: a data loader's worker can die of it while its parent is far below."""
        meter = CpuMeter(data_bytes())
        meter.reset()
        context = multiprocessing.get_context("fork")
        seen = context.Event()
        worker = context.Process(target=hold, args=(96 * MIB, seen))
        worker.start()
        end = time.monotonic() + 120  # the looks of a thread come when the machine lets them
        while meter.peaks()["reserved_bytes"] <= 64 * MIB and time.monotonic() < end:
            time.sleep(0.01)
        seen.set()
        worker.join()
        assert 64 * MIB < meter.peaks()["reserved_bytes"] < 130 * MIB, (
            "less some stacks of the parent's other threads, which a fork gives back"
        )
        meter.reset()  # it has ended: nothing is left to look at
        meter.close()
        assert meter.peaks()["reserved_bytes"] < 30 * MIB


def test_a_script_whose_python_has_no_torch_ends_with_its_own_words() -> None:
    """At its exit a process tells its rank, and tried to import what the script had just failed to."""
    asked = "import sys; from autofit_launcher.inside import part; print(part.distributed(), part.world_size(), 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "None 1 False\n"
