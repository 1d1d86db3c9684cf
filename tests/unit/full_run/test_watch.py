"""What is seen of a run while it goes on: when a line was printed, how far it has come, at what pace. No clock, no card, no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofit_launcher.full_run import run
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.history import series
from autofit_launcher.history.run_folder import RunFolder
from tests.helpers.stand_in import watched


def test_a_run_that_stands_still_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.procfs, "work_seconds", lambda pid: 1000.0)
    watch, child = watched(tmp_path)
    for child.awake.seconds in range(0, 800, 100):
        watch()
    assert watch.ended_for is Ended.STALLED


def test_the_last_line_counts_though_nothing_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "run.stdout.log"
    path.write_text("epoch 1 loss: nan")
    heard: list[str] = []
    log = run.Log(path, heard.append)
    log.look()
    assert heard == []
    log.look(ended=True)
    assert heard == ["epoch 1 loss: nan"]


def test_progress_is_read_from_before_all_that_a_run_says_at_its_end(tmp_path: Path) -> None:
    """All of a short run between two looks: its steps, then a validation and its table."""
    watch, _ = watched(tmp_path)
    for line in ("epoch 1/1", "step 1/2 loss 0.9", "step 2/2 loss 0.5", *(f"class{number}  0.1 0.2" for number in range(100))):
        watch._heard(line)
    watch.look()
    (told,) = series.read(RunFolder(tmp_path).series)
    assert (told["epoch"], told["step"], told["steps"], told["loss"], told["done"]) == (1, 2, 2, 0.5, 1.0)
