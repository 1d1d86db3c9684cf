"""What a run says between two looks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from launcher.config.schema import Recipe
from launcher.history import series
from launcher.ladder.rungs import Rung
from launcher.run.memory_usage import Usage
from launcher.run.watch import RunMeter
from launcher.trial.job import Job
from tests.helpers.stand_in import StandIn


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
