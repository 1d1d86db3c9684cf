"""What is seen of a run while it goes on: when a line was printed, how far it has come, at what pace. No clock, no card, no run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autofit_launcher.adapter import log_line
from autofit_launcher.adapter.progress import TRAIN, Progress
from autofit_launcher.common.sizes import GIB
from autofit_launcher.config.schema import Recipe, RecoverRules
from autofit_launcher.full_run import run
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.full_run.run import RunMeter
from autofit_launcher.history import series
from autofit_launcher.history.records import AttemptRecord
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.machine.meter import Usage
from autofit_launcher.trial.job import Job
from tests.helpers.stand_in import StandIn


def watched(place: Path, looks: Iterable[tuple[float, Progress]], *, spills: bool = False, used: int = 0) -> run.RunWatch:
    """What has watched a run that computes all the while: so many seconds before each look, and what the run had said by then."""
    budget = SimpleNamespace(may_spill=spills, budget_bytes=24 * GIB, cap_bytes=19 * GIB)
    job: Any = SimpleNamespace(
        budget=budget, say=lambda words, style: None, folder=RunFolder(place), adapter=StandIn(cast(Recipe, None)),
        recipe=SimpleNamespace(recover=RecoverRules(), run=SimpleNamespace(grace_s=60.0)),
    )  # fmt: skip
    process = SimpleNamespace(poll=lambda: 0)
    child: Any = SimpleNamespace(awake=SimpleNamespace(seconds=0.0), pid=0, process=process)
    meter: Any = SimpleNamespace(read=None, look=lambda ended: None, usage=SimpleNamespace(now_bytes=used * GIB))
    seen = run.RunWatch(child, job, meter, [AttemptRecord()])
    for passed, meter.progress in looks:
        child.awake.seconds += passed
        seen()
    return seen


@pytest.fixture(autouse=True)
def computes(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = count(1000.0, 1000.0)
    monkeypatch.setattr(run.procfs, "work_seconds", lambda pid: next(taken))


@pytest.mark.parametrize(("spills", "used", "ended"), [(True, 22, Ended.SPILLED), (True, 18, None), (False, 22, None)])
def test_a_cliff_over_the_cap_ends_an_attempt_where_the_driver_spills(spills: bool, used: int, ended: Ended | None, tmp_path: Path) -> None:
    """Below the cap something else slows it down, and Linux gives no host memory for the card's."""
    looks = ((10.0 if step >= 300 else 1.0, Progress(phase=TRAIN, step=step, steps=10**6)) for step in range(1, 341))
    seen = watched(tmp_path, looks, spills=spills, used=used)
    assert seen.ended_for is ended
    if ended is not None:
        assert "10.0 times" in seen.evidence and "with 22.0 GiB of 24.0 GiB in use, over the trials' cap of 19.0 GiB" in seen.evidence


def test_a_run_that_computes_and_makes_no_more_steps_is_ended_once_its_stacks_are_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collective that hangs spins."""
    written: list[Path] = []
    monkeypatch.setattr(run.stall, "record", lambda child, path, told: written.append(path))
    steps = [Progress(phase=TRAIN, epoch=1 + step // 10, epochs=9, step=1 + step % 10, steps=10, of_epoch=True) for step in range(45)]
    seen = watched(tmp_path, [*((1.0, step) for step in steps), *((100.0, steps[-1]) for _ in range(20))])
    assert seen.ended_for is Ended.STALLED and seen.evidence.startswith("no step and no output for") and len(written) == 1


def test_the_last_line_counts_though_nothing_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "run.stdout.log"
    path.write_text("epoch 1 loss: nan")
    heard: list[str] = []
    log = run.Log(path, lambda line: log_line.read(line, Progress()), lambda line, said: heard.append(line))
    log.look()
    assert heard == []
    log.look(ended=True)
    assert heard == ["epoch 1 loss: nan"]


def test_progress_is_read_from_before_all_that_a_run_says_at_its_end(tmp_path: Path) -> None:
    """All of a short run between two looks: its steps, then a validation and its table."""
    file = tmp_path / "series.jsonl"
    job: Any = SimpleNamespace(adapter=StandIn(cast(Recipe, None)), folder=SimpleNamespace(series=file), budget=SimpleNamespace(kind="cpu"))
    usage: Any = SimpleNamespace(now_bytes=0, lately=lambda: 0, host_bytes=lambda: 0, peak_bytes=0)
    meter = RunMeter(cast(Job, job), cast(Rung, None), cast(Usage, usage))
    for line in ("epoch 1/1", "step 1/2 loss 0.9", "step 2/2 loss 0.5", *(f"class{number}  0.1 0.2" for number in range(100))):
        meter.read(line)
    meter.look()
    (told,) = series.read(file)
    assert (told["epoch"], told["step"], told["steps"], told["loss"], told["done"]) == (1, 2, 2, 0.5, 1.0)
