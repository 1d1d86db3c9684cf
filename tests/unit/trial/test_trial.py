"""A trial that stands still is ended in minutes; one that computes, writes or comes to another phase never is, however long it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autofit_launcher.adapter.commands import TrialPlan
from autofit_launcher.common.orders import Orders
from autofit_launcher.common.report import TrialReport
from autofit_launcher.config.schema import LadderRules, Recipe, TrainerRules
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import Rung, Wheel, build
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import process
from autofit_launcher.machine.devices import Budget
from autofit_launcher.machine.process import Ending
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial import trial
from autofit_launcher.trial.job import Job
from tests.helpers.few import Few

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
WRITES = "import time\nwhile True: print('a word', flush=True); time.sleep(0.2)"
READS = "while True: open('/proc/self/stat').read()"
REPORTS = "import os, sys, time\ndef report(): open(f'{sys.argv[1]}.new', 'w').write('{}'); os.replace(f'{sys.argv[1]}.new', sys.argv[1])\n"
"""As a recorder writes: whoever reads it meanwhile finds it whole."""
PHASES = f"{REPORTS}while True: report(); time.sleep(0.2)"


def watched(place: Path, code: str, *, stall_s: float, timeout_s: float) -> tuple[Ending, trial.TrialWatch]:
    budget: Budget = cpu_budget()
    orders = Orders(module="", folder=str(place), device=budget.kind, cap_bytes=budget.cap_bytes, accumulation=1, payload={})
    argv = (sys.executable, "-c", code, str(orders.report_path))
    child = process.start(argv, env={}, stdout=place / "stdout.log", stderr=place / "stderr.log")
    watch = trial.TrialWatch(child, orders, lambda words, style: None, stall_s=stall_s, comes_to=lambda pid, phase: None)
    return process.wait(child, timeout_s=timeout_s, each_poll=watch), watch


def test_one_that_sleeps_is_ended_long_before_its_time(tmp_path: Path) -> None:
    ending, watch = watched(tmp_path, "import time; time.sleep(600)", stall_s=3.0, timeout_s=300.0)
    assert watch.stood_still and not ending.timed_out


@pytest.mark.parametrize("code", [WRITES, PHASES, READS])
def test_one_at_work_is_never_ended(tmp_path: Path, code: str) -> None:
    ending, watch = watched(tmp_path, code, stall_s=1.5, timeout_s=4.0)
    assert ending.timed_out and not watch.stood_still


def test_the_data_segments_of_all_its_processes_are_watched_from_outside(tmp_path: Path) -> None:
    """A signal may end the one that trains before it could report: a native library that doesn't check its allocation."""
    trains = "import time; held = bytearray(300_000_000); time.sleep(3)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {trains!r}])"
    _, watch = watched(tmp_path, code, stall_s=300.0, timeout_s=60.0)
    assert 300_000_000 < watch.peak_data_bytes < 500_000_000


MADE = Recipe(name="mine", ask={"micro_batch": 8}, trainer=TrainerRules(adapter="few"), ladder=LadderRules(order=("micro_batch",)))
LOOKS = """
import json, os
from pathlib import Path
def run(orders, recorder):
    (Path(orders.folder) / "seen").write_text(json.dumps(os.listdir(orders.scratch)))
"""


class Looks(Few):
    """Its trial says what it finds in the folder that it writes to."""

    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        return TrialPlan(module="looks", payload={}, env={"PYTHONPATH": str(self.code[0])})


def test_what_a_trial_left_that_was_killed_is_no_word_of_the_next(tmp_path: Path) -> None:
    """A report of its processes, say: that of a Ctrl-C was taken for a crash of the next, and one that had come through would have been
    taken for a rung that fits."""
    (tmp_path / "looks.py").write_text(LOOKS, encoding="utf-8")
    ladder = build([Wheel(name="micro_batch", values=(8,))], effective_batch=8)
    folder = RunFolder.create(tmp_path / "runs", "mine")
    left = folder.trial(0) / "scratch" / "cut" / "records" / "7"
    left.mkdir(parents=True)
    TrialReport(phase="done").write(left / "report.json")
    (folder.trial(0) / "stderr.log").write_text("Traceback (most recent call last):")
    job = Job(adapter=Looks(MADE, code=[tmp_path]), ladder=ladder, budget=cpu_budget(), folder=folder)
    assert trial.run(job, ladder.asked).verdict.kind is not Kind.FITS
    assert (folder.trial(0) / "seen").read_text() == "[]" and not (folder.trial(0) / "scratch").exists()
    assert (folder.trial(0) / "stderr.log.before").exists()
