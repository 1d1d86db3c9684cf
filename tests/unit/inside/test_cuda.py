"""A card's budget and meter, on stand-ins for NVML and torch.cuda: what is outside the allocator, whose card it is, what fails a trial."""

from __future__ import annotations

import multiprocessing.process
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autofit_launcher.common.orders import Orders, ProbeSettings
from autofit_launcher.common.report import SEARCHES, Phase, PhaseUse
from autofit_launcher.inside import budget
from autofit_launcher.inside.budget import BudgetError
from autofit_launcher.inside.driver import USUAL_CONTEXT_BYTES
from autofit_launcher.inside.instrument import Instrument
from autofit_launcher.inside.recorder import OverCap, Recorder
from tests.helpers.nvml_stand_in import GIB, MIB, FakeCard, FakeCuda, FakeNvml, FakeTorch

CAP = 4 * GIB


class Machine:
    """One card, its driver, and a trial's process on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Path, **cuda: object) -> None:
        self.card = FakeCard()
        self.cuda = FakeCuda(self.card, **cuda)  # type: ignore[arg-type]
        self.idle = self.cuda.total - self.card.used
        monkeypatch.setitem(sys.modules, "torch", FakeTorch(self.cuda))
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(self.card))
        self.orders = Orders(
            module="none", folder=str(place), device="cuda", device_uuid=self.card.uuid, idle_free_bytes=self.idle,
            cap_bytes=CAP, ceiling_bytes=CAP, accumulation=1, payload={},
        )  # fmt: skip

    def begun(self) -> Recorder:
        recorder = Recorder(self.orders)
        recorder.budget(budget.take(self.orders))
        recorder.phase(Phase.TRAIN)
        return recorder


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def use(recorder: Recorder, phase: Phase = Phase.TRAIN) -> PhaseUse:
    return next(one for one in recorder.report().uses if one.phase == phase)


# ---- 1: what lies outside the allocator


def test_kernels_loaded_with_the_first_step_count_and_lower_the_wall(machine: Machine) -> None:
    recorder = machine.begun()
    machine.cuda.allocate(GIB)
    machine.cuda.load_kernels(300 * MIB)
    recorder.optimizer_step()
    assert machine.cuda.limits[-1] == CAP - 800 * MIB
    machine.cuda.free(GIB)
    machine.cuda.empty_cache()
    recorder.phase(Phase.VALIDATE)
    assert (use(recorder).reserved_bytes, use(recorder).outside_bytes) == (GIB, 800 * MIB), "the peak, also after a flush"
    assert use(recorder).device_bytes == recorder.report().peak_bytes == GIB + 800 * MIB


def test_reserved_and_outside_together_over_the_cap_end_the_trial(machine: Machine) -> None:
    recorder = machine.begun()
    machine.cuda.allocate(CAP - 600 * MIB)  # inside the allocator's own limit
    machine.cuda.load_kernels(300 * MIB)
    recorder.optimizer_step()
    with pytest.raises(OverCap, match=f"phase train needed {CAP + 200 * MIB} bytes, the cap is {CAP}"):
        recorder.phase(Phase.VALIDATE)


def test_a_neighbour_that_gives_memory_back_meanwhile_hides_no_context(machine: Machine) -> None:
    machine.card.used -= 500 * MIB
    assert budget.take(machine.orders).base_bytes == USUAL_CONTEXT_BYTES


def test_a_neighbour_that_comes_meanwhile_takes_nothing_where_the_driver_tells_who_holds_what(machine: Machine) -> None:
    machine.card.processes = [[(os.getpid(), 500 * MIB)]]
    machine.card.used += 2 * GIB
    assert budget.take(machine.orders).base_bytes == 500 * MIB


def test_of_memory_that_is_the_hosts_too_what_this_process_holds_counts_and_no_page_cache(machine: Machine) -> None:
    """NVIDIA GB10: NVML tells processes and no memory; what CUDA calls free leaves out the page cache."""
    sys.modules["pynvml"].nvmlDeviceGetMemoryInfo = lambda *_, **__: sys.modules["pynvml"].nvmlDeviceGetHandleByIndex(0)
    machine.card.processes, machine.card.locked = [[(os.getpid(), 500 * MIB)]], True
    machine.card.used += 15 * GIB  # files that were read
    assert budget.take(replace(machine.orders, idle_free_bytes=0)).base_bytes == 500 * MIB
    assert machine.cuda.limits == [CAP - 500 * MIB]


# ---- 4, 5: a budget that isn't there


def test_a_run_goes_on_with_what_others_have_left_it(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """A desktop or a neighbour of some hundred MiB came between the trial and its run: on a real H200 the run died of it."""
    machine.card.processes = [[(os.getpid(), 500 * MIB)]]
    machine.card.used += 13 * GIB
    budget.take(machine.orders)
    assert "it goes on with those" in capsys.readouterr().err
    assert machine.cuda.limits == [machine.idle - 13 * GIB - 500 * MIB]


def test_a_budget_that_a_context_alone_fills_is_a_budgets_fault(machine: Machine) -> None:
    with pytest.raises(BudgetError, match="the CUDA context alone takes"):
        budget.take(replace(machine.orders, cap_bytes=400 * MIB, ceiling_bytes=400 * MIB))


# ---- 6: one card


def test_a_script_that_chooses_its_own_card_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, tmp_path, uuid="GPU-99999999-aaaa-bbbb-cccc-000000000000")
    with pytest.raises(BudgetError, match=r"runs on the card GPU-99999999-.* something in it sets CUDA_VISIBLE_DEVICES"):
        budget.take(machine.orders)


# ---- 7: evidence, not guilt


def test_what_cudnn_tries_and_gets_over_is_counted_and_no_failure(machine: Machine) -> None:
    recorder = machine.begun()
    with pytest.raises(RuntimeError):
        machine.cuda.allocate(8 * GIB)  # a plan's workspace; Conv_v8.cpp catches it and takes the next
    recorder.phase(Phase.VALIDATE)
    report = recorder.report()
    assert (use(recorder).ooms, use(recorder).squeezed, report.swallowed) == (1, 0, ())


def test_a_trial_says_that_cudnn_searches_and_can_be_held_without_it(machine: Machine) -> None:
    recorder = machine.begun()
    assert not recorder.report().facts.get(SEARCHES)
    sys.modules["torch"].backends.cudnn.benchmark = True
    assert recorder.report().facts[SEARCHES]
    code = (
        "import torch; from autofit_launcher.inside.budget import without_search; torch.backends.cudnn.benchmark = True; without_search()\n"
        "torch.backends.cudnn.benchmark = True\n"
        "with torch.backends.cudnn.flags(benchmark=True): print(torch.backends.cudnn.benchmark)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# ---- 4: spill


def test_half_micro_batches_are_timed_apart_from_whole_ones(machine: Machine) -> None:
    now = [0.0]
    recorder = Recorder(machine.orders, lambda: now[0])
    recorder.phase(Phase.TRAIN)
    recorder.optimizer_step()
    for seconds in (9, 4, 4):
        now[0] += seconds
        recorder.batch()
    recorder.halves_begin()
    for seconds in (5, 1):
        now[0] += seconds
        recorder.batch()
    report = recorder.report()
    assert (report.full_step_seconds, report.half_step_seconds) == (4, 1)


# ---- 16: processes that are no part of a trial


def test_a_spawned_data_loading_worker_opens_no_card(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(multiprocessing.process, "current_process", lambda: SimpleNamespace(daemon=True))
    session = Instrument(ProbeSettings(records=str(tmp_path), orders=asdict(machine.orders)))
    session.open()
    assert session.settled and not session.active and not machine.cuda.opened
