"""Something happens to one rank of a trial: the others end with it within seconds, it is the verdict, and nothing is left behind."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.adapter.commands import TrialPlan
from launcher.config.schema import LadderRules, Recipe, RecoverRules, TrainerRules
from launcher.history.run_folder import RunFolder
from launcher.ladder.rungs import Rung, Wheel, build
from launcher.ladder.verdict import Kind
from launcher.machine.devices import Budget
from launcher.machine.process import TOKEN
from launcher.shared import procfs
from launcher.shared.report import TrialReport
from launcher.trainers.suite import cpu_budget
from launcher.trial import trial
from launcher.trial.job import Job
from launcher.trial.trial import Trial
from tests.helpers.places import ROOT
from tests.helpers.stand_in import StandIn

LADDER = build([Wheel(name="micro_batch", values=(8,))], effective_batch=16, world_size=2)
MOST_S = 15.0
"""5 s on an idle machine, seen in 20 of 20."""


class Faulty(StandIn):
    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        env = {"PYTHONPATH": str(ROOT / "tests" / "data" / "ranks")}
        return TrialPlan(module="faulty_rank", payload={"fault": self.recipe.trainer.args["fault"]}, env=env)


def tried(fault: str, folder: Path, *, stall_s: float = 600.0) -> Trial:
    rules = TrainerRules(adapter="stand-in", args={"fault": fault})
    recipe = Recipe(
        name="faulty",
        ask={"micro_batch": 8},
        trainer=rules,
        ladder=LadderRules(order=("micro_batch",)),
        recover=RecoverRules(stall_s=stall_s),
    )
    one = cpu_budget()
    job = Job(adapter=Faulty(recipe), ladder=LADDER, budget=replace(one, ranks=(one, one)), folder=RunFolder.create(folder, "case"))
    return trial.run(job, LADDER.asked)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("memory", Kind.OUT_OF_MEMORY, "rank 1 of 2: out of memory in phase train, asking for 4096 MiB (host)"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                ("killed", Kind.OUT_OF_MEMORY, "rank 1 of 2: out of memory in phase train (host)"),
                ("crashes", Kind.CRASHED, 'rank 1 of 2: KeyError: "rank 1\'s own"'),
                ("leaves", Kind.CRASHED, "rank 1 of 2: SystemExit: 0"),
            )
        ),
    ],
)
def test_the_faulty_rank_is_the_verdict(fault: str, kind: Kind, said: str, tmp_path: Path) -> None:
    found = tried(fault, tmp_path)
    seconds = time.time() - _last_sign_of(found.folder / "ranks" / "1")
    assert (found.verdict.kind, found.verdict.why) == (kind, said)
    assert seconds < MOST_S
    innocent = TrialReport.read(found.folder / "ranks" / "0" / "report.json")
    assert innocent is not None and innocent.phase == "train"
    assert [pid for pid in procfs.with_variable(TOKEN, ("/",)) if _is_of(pid, found.folder)] == []


@pytest.mark.slow
def test_a_rank_that_hangs_is_named_and_where(tmp_path: Path) -> None:
    found = tried("hangs", tmp_path, stall_s=5.0)
    said = "rank 1 of 2 did not come to where the others wait for it: it stands in happens ("
    assert found.verdict.kind is Kind.STALLED and found.verdict.why.startswith(said), found.verdict
    assert "faulty_rank.py:" in found.verdict.why and "torch/nn/parallel/distributed.py" in (found.folder / "stalled.txt").read_text()
    assert [pid for pid in procfs.with_variable(TOKEN, ("/",)) if _is_of(pid, found.folder)] == []


def _last_sign_of(folder: Path) -> float:
    return (folder / "report.json").stat().st_mtime


def _is_of(pid: int, folder: Path) -> bool:
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes() and pid != os.getpid()
    except OSError:
        return False
