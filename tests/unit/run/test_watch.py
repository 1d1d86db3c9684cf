"""What is seen of a run while it goes on: when a line was printed, how far it has come, at what pace. No clock, no card, no run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from launcher.adapter import log_line
from launcher.adapter.log_line import LogLine
from launcher.adapter.progress import TRAIN, Progress
from launcher.config.schema import Recipe
from launcher.history import series
from launcher.ladder.rungs import Rung
from launcher.machine.devices import Budget
from launcher.run import watch
from launcher.run.cause import Ended
from launcher.run.health import Look, Pacing, Remark
from launcher.run.memory_usage import Usage
from launcher.run.watch import RunMeter
from launcher.shared.sizes import GIB
from launcher.trial.job import Job
from tests.helpers.stand_in import StandIn


def pace(**budget: object) -> Pacing:
    card = Budget(
        kind="cuda", index=0, name="a card", total_bytes=24 * GIB, free_bytes=24 * GIB, budget_bytes=24 * GIB, cap_bytes=19 * GIB,
        ceiling_bytes=19 * GIB, headroom=0.1, neighbours=(), emulated=False, notes=(),
    )  # fmt: skip
    return Pacing(replace(card, **budget), stall_s=600)  # type: ignore[arg-type]


def look(step: int, now: float, *, used: int = 22 * GIB) -> Look:
    return Look(now=now, progress=Progress(phase=TRAIN, step=step, steps=10**6), used_bytes=used, grew=True)


def walked(pace: Pacing, *, slow_from: int, slow_s: float, steps: int, used: int = 22 * GIB) -> list[Remark]:
    found, now = [], 0.0
    for step in range(1, steps):
        now += slow_s if step >= slow_from else 1.0
        found += pace.look(look(step, now, used=used))
    return found


def test_a_cliff_over_the_cap_ends_an_attempt_where_the_driver_spills() -> None:
    (found,) = walked(pace(may_spill=True), slow_from=300, slow_s=10.0, steps=340)
    assert found.ends is Ended.SPILLED and "10.0 times" in found.what
    assert "with 22.0 GiB of 24.0 GiB in use, over the trials' cap of 19.0 GiB" in found.what
    (found,) = walked(pace(may_spill=True), slow_from=300, slow_s=10.0, steps=340, used=18 * GIB)
    assert found.ends is None, "something else slows it down"


def test_elsewhere_a_cliff_is_told_once_with_what_was_seen() -> None:
    (found,) = walked(pace(), slow_from=300, slow_s=10.0, steps=400)
    told = "has slowed down: a step takes 10.00 s, 10.0 times the 1.00 s that it took; 22.0 GiB of 24.0 GiB in use"
    assert found == Remark(told), "Linux gives no host memory for the card's"


def read(line: str) -> LogLine:
    return log_line.read(line, Progress())


def test_a_line_was_printed_after_the_last_look_and_lines_that_were_held_back_after_the_last_that_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(watch.time, "time", lambda: clock[0])
    path = tmp_path / "run.stdout.log"
    path.touch()
    heard: list[tuple[str, float]] = []
    log = watch.Log(path, read, lambda line, said, at: heard.append((line, at)))

    def comes(words: str, *, at: float) -> list[float]:
        with path.open("a") as file:
            file.write(words)
        clock[0] = at
        before = len(heard)
        log.look()
        return [when for line, when in heard[before:] if line]

    assert comes("epoch 0 loss: 0.5\n", at=10.0) == [0.0]
    assert comes("", at=20.0) == []
    assert comes("epoch 1 loss: nan\n", at=21.0) == [20.0], "one report at a time: it is new since the last look"
    assert comes("", at=30.0) == []
    assert comes("epoch 2 loss: 0.5\nepoch 3 loss: nan\nepoch 4 loss: nan\n", at=31.0) == [21.0] * 3, "a pipe that was flushed at last"


def test_the_last_line_counts_though_nothing_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "run.stdout.log"
    path.write_text("epoch 1 loss: nan")
    heard: list[str] = []
    log = watch.Log(path, read, lambda line, said, at: heard.append(line))
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
