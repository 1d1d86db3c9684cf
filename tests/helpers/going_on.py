"""Trials of two processes, of which the second goes on from the checkpoint of the first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.adapter.build import ladder_of
from launcher.adapter.protocol import Adapter
from launcher.history.run_folder import RunFolder
from launcher.machine import devices
from launcher.shared.orders import Orders
from launcher.trial import trial
from launcher.trial.job import Job
from launcher.trial.trial import Trial


def tried(adapter: Adapter, place: Path, *, memory_bytes: int | None) -> Trial:
    """The trial of rung 0 on a CPU budget."""
    assert adapter.check() == []
    budget = devices.find("cpu", memory_bytes=memory_bytes, headroom=adapter.recipe.device.headroom)
    made = Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget, folder=RunFolder.create(place, "case"))
    found = trial.run(made, made.ladder.rungs[0])
    assert not (found.folder / "scratch").exists()
    return found


def between(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Orders], Orders]) -> None:
    """Does something between the two processes."""
    ended = trial._ended

    def with_it(job: Any, orders: Orders, plan: Any) -> Any:
        return ended(job, meanwhile(orders) if orders.resumes else orders, plan)

    monkeypatch.setattr(trial, "_ended", with_it)
