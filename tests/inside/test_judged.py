"""What several processes reported -> one report: the cause before its echoes, memory that is shared added up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.common.orders import Orders
from autofit_launcher.common.report import HELD_AHEAD, HOST_BESIDE, RANK, SAMPLES, Failure, Phase, PhaseUse, TrialReport
from autofit_launcher.inside import trial
from autofit_launcher.inside.counted import PATIENCE, StepsByOptimizer
from autofit_launcher.inside.trial import judged

ECHO = Failure(types=("RuntimeError",), message="RuntimeError: [gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1", traceback="")
OOM = Failure(types=("RuntimeError",), message="RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to", traceback="")


def orders(folder: Path, device: str = "cpu") -> Orders:
    return Orders(module="", folder=str(folder), device=device, cap_bytes=100, accumulation=1, payload={})


def rank(**what: object) -> TrialReport:
    uses = (PhaseUse(phase=Phase.TRAIN, seconds=1.0, reserved_bytes=60, allocated_bytes=50, device_bytes=60),)
    return TrialReport(**{"phase": "train", "optimizer_steps": 2, "uses": uses, "observed": {"micro_batch": 8}, **what})  # type: ignore[arg-type]


def test_a_memory_failure_wins_over_the_neighbours_that_only_saw_it(tmp_path: Path) -> None:
    assert judged([rank(failure=ECHO), rank(failure=OOM)], 1, orders(tmp_path)).failure == OOM


def test_a_process_that_was_ended_before_it_could_say_why_is_the_cause_all_the_same(tmp_path: Path) -> None:
    report = judged([rank(failure=ECHO), rank(swallowed=("RuntimeError: can't allocate memory",))], 1, orders(tmp_path))
    assert report.failure is not None and "OutOfMemoryError" in report.failure.types


TORCHRUN = """
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_08:00:00
  host      : here
  rank      : 1 (local_rank: 1)
  exitcode  : {status} (pid: 17) Signal
"""


@pytest.mark.parametrize(("status", "told"), [(-9, -9), (-15, 0)])
def test_a_rank_that_the_kernel_killed_is_told_by_torchrun_and_is_the_cause(status: int, told: int, tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text(TORCHRUN.format(status=status))
    ranks = [rank(failure=ECHO, facts={RANK: 0}), rank(facts={RANK: 1})]
    assert trial._signal_of_a_rank(ranks, orders(tmp_path)) == told
    report = judged(ranks, told or 1, orders(tmp_path))
    assert report.facts[RANK] == 1 and (report.failure is None) == (told == -9)
    assert trial._signal_of_a_rank([rank(failure=OOM), *ranks], orders(tmp_path)) == 0, "it says why"


def test_processes_share_a_cpus_budget_and_not_a_cards(tmp_path: Path) -> None:
    reports = [rank(phase="done", facts={HELD_AHEAD: 24, HOST_BESIDE: 3, "samples": 8, "own_accumulation": 2})] * 2
    report = judged(reports, 0, orders(tmp_path))
    assert report.uses[0].reserved_bytes == 120
    assert (report.facts[HELD_AHEAD], report.facts[HOST_BESIDE], report.facts[SAMPLES]) == (48, 6, 32), "the machine they share as well"
    assert any("accumulates 2 micro-batches by itself" in note for note in report.notes)
    assert judged(reports, 0, orders(tmp_path, "cuda")).uses[0].reserved_bytes == 60
    assert any("2 processes train together: 16 samples" in note for note in judged(reports, 0, orders(tmp_path)).notes)


def test_of_a_phase_that_came_twice_the_time_with_most_counts(tmp_path: Path) -> None:
    """As where a script validates once before it trains: the optimizer's states come with the second training."""
    sizes = ((Phase.TRAIN, 10), (Phase.VALIDATE, 5), (Phase.TRAIN, 70), (Phase.VALIDATE, 40))
    uses = tuple(PhaseUse(phase=phase, seconds=1.0, reserved_bytes=size, allocated_bytes=size, device_bytes=size) for phase, size in sizes)
    report = judged([rank(phase="done", uses=uses), rank(phase="done", uses=uses)], 0, orders(tmp_path))
    assert max(use.reserved_bytes for use in report.uses) == 140
    assert {use.reserved_bytes for use in report.uses if use.phase == Phase.VALIDATE} == {80}


class Optimizer:
    """Anything that can be referred to weakly."""


def test_training_is_as_far_as_the_optimizer_that_stepped_least() -> None:
    progress, critic, generator = StepsByOptimizer(), Optimizer(), Optimizer()
    progress.made(critic)
    progress.made(generator)
    for _ in range(5):
        progress.stepped(critic)
    assert progress.least == 0
    progress.stepped(generator)
    assert progress.least == 1
    progress.mark()
    progress.stepped(critic)
    assert progress.since_mark == 0


def test_an_optimizer_that_is_gone_or_never_steps_is_not_waited_for() -> None:
    progress, used, idle = StepsByOptimizer(), Optimizer(), Optimizer()
    progress.made(idle)
    for _ in range(PATIENCE):
        progress.stepped(used)
    assert progress.least == PATIENCE
    finder = Optimizer()
    progress.made(finder)
    progress.stepped(finder)
    assert progress.least == 1
    del finder
    assert progress.least == PATIENCE


def test_of_one_that_goes_on_nothing_is_said_but_of_going_on(tmp_path: Path) -> None:
    """It may be at its end after a step: that a validation comes, the process before it has shown."""
    ended = rank(facts={"ended": "exit"})
    assert any("never validates" in note for note in judged([ended], 0, orders(tmp_path)).notes)
    going_on = judged([ended], 0, replace(orders(tmp_path), resumes=True))
    assert going_on.phase == Phase.DONE and not going_on.notes and not going_on.hint
