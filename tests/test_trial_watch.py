"""A trial that stands still is ended in minutes; one that computes, writes or comes to another phase never is, however long it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from launcher import process, trial
from launcher.contract.ending import Ending
from launcher.contract.orders import Orders
from launcher.contract.report import TrialReport
from launcher.devices import Budget
from launcher.ladder import Wheel, build
from launcher.trainers.suite import cpu_budget
from launcher.verdict import Kind, Needs, judge

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
WRITES = "import time\nwhile True: print('a word', flush=True); time.sleep(0.2)"
PHASES = "import os, sys, time\nwhile True: open(sys.argv[1], 'w').write('{}'); time.sleep(0.2)"


def watched(place: Path, code: str, *, stall_s: float, timeout_s: float) -> tuple[Ending, trial._Watch, list[str]]:
    budget: Budget = cpu_budget()
    orders = Orders(module="", folder=str(place), device=budget.kind, cap_bytes=budget.cap_bytes, accumulation=1, payload={})
    argv = (sys.executable, "-c", code, str(orders.report_path))
    child = process.start(argv, env={}, stdout=place / "stdout.log", stderr=place / "stderr.log")
    said: list[str] = []
    watch = trial._Watch(child, orders, lambda phase, seconds, new: said.append(phase) if new else None, stall_s=stall_s)
    return process.wait(child, timeout_s=timeout_s, each_poll=watch), watch, said


def test_one_that_sleeps_is_ended_long_before_its_time_and_where_it_stood_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "STILL_S", 1.0)
    ending, watch, said = watched(tmp_path, "import time; time.sleep(600)", stall_s=3.0, timeout_s=300.0)
    assert watch.stood_still and not ending.timed_out and "process" in (tmp_path / "stalled.txt").read_text()
    assert any("computing nothing for" in phase and "recover.stall_s=3" in phase for phase in said), "it is said before it is ended"


@pytest.mark.parametrize("code", ["while True: pass", WRITES, PHASES])
def test_one_at_work_is_never_ended(tmp_path: Path, code: str) -> None:
    ending, watch, _ = watched(tmp_path, code, stall_s=1.5, timeout_s=5.0)
    assert ending.timed_out and not watch.stood_still


def test_the_verdict_on_one_that_stood_still_says_where() -> None:
    rung = build([Wheel(name="micro_batch", values=(8,))], effective_batch=8).asked
    needs = Needs(optimizer_steps=2, validation_batches=1)
    ending = Ending(returncode=-15, stood_still="process 7 (sleeping): futex_wait")
    for report in (None, TrialReport(phase="train")):
        verdict = judge(report, ending, rung=rung, needs=needs)
        assert verdict.kind is Kind.STALLED and "stood still" in verdict.why and "futex_wait" in verdict.evidence
        assert not verdict.lower_rung_may_help
