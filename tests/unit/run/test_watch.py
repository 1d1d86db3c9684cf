"""What a run's pace comes to: told once, or the end of an attempt. The card and the clock are stand-ins; the processes are real."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.watching_cost import job as script_job
from launcher.adapter.progress import TRAIN, Progress
from launcher.machine import host
from launcher.machine.devices import Budget
from launcher.run import watch
from launcher.run.health import STARVED_S, Look
from launcher.run.recovery import Ended
from launcher.run.watch import Found, Pacing
from launcher.shared.sizes import GIB


def pace(tmp_path: Path, **budget: object) -> Pacing:
    job = script_job(tmp_path)
    card = Budget(
        kind="cuda", index=0, name="a card", total_bytes=24 * GIB, free_bytes=24 * GIB, budget_bytes=24 * GIB, cap_bytes=19 * GIB,
        ceiling_bytes=19 * GIB, headroom=0.1, neighbours=(), emulated=False, notes=(),
    )  # fmt: skip
    return Pacing(os.getpid(), replace(job, budget=replace(card, **budget)))  # type: ignore[arg-type]


def look(step: int, now: float, *, used: int = 22 * GIB, busy: float | None = 0.9) -> Look:
    return Look(now=now, progress=Progress(phase=TRAIN, step=step, steps=10**6), used_bytes=used, busy=busy, grew=True)


def walked(pace: Pacing, *, slow_from: int, slow_s: float, steps: int, busy: float | None = 0.9) -> list[Found]:
    found, now = [], 0.0
    for step in range(1, steps):
        now += slow_s if step >= slow_from else 1.0
        found += pace.look(look(step, now, busy=busy))
    return found


def test_a_cliff_over_the_cap_ends_an_attempt_where_the_driver_spills(tmp_path: Path) -> None:
    (found,) = walked(pace(tmp_path, may_spill=True), slow_from=300, slow_s=10.0, steps=340)
    assert found.ends is Ended.SPILLED and "10.0 times" in found.what and "22.0 GiB of 24.0 GiB" in found.what


def test_elsewhere_a_cliff_is_told_once_with_what_was_seen(tmp_path: Path) -> None:
    (found,) = walked(pace(tmp_path), slow_from=300, slow_s=10.0, steps=400)
    told = "has slowed down: a step takes 10.00 s, 10.0 times the 1.00 s that it took; 22.0 GiB of 24.0 GiB in use, the card 90% busy"
    assert found == Found(told)


def test_a_card_that_waits_is_told_once_and_a_cpu_never_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cores", lambda: 16)
    monkeypatch.setattr(watch._Processes, "loads", lambda self, now: (0.2, []))  # other tests' children are this process's, too
    (found,) = walked(pace(tmp_path), slow_from=10**6, slow_s=1.0, steps=3 * int(STARVED_S), busy=0.25)
    assert found.ends is None and found.what.startswith("leaves its card idle 75% of the time") and "try 4 loader workers" in found.what
    assert not walked(pace(tmp_path), slow_from=10**6, slow_s=1.0, steps=3 * int(STARVED_S), busy=None)


def test_what_processes_take_is_counted_by_process() -> None:
    seen = watch._Processes(os.getpid())
    seen.look(0.0)
    sum(range(10**6))
    main, others = seen.loads(1.0)
    assert main > 0 and all(part >= 0 for part in others)
