"""Trials of two processes, of which the second goes on from the checkpoint of the first."""

from __future__ import annotations

from pathlib import Path

from autofit_launcher.adapter.protocol import Adapter
from autofit_launcher.machine import devices
from autofit_launcher.trial import trial
from autofit_launcher.trial.trial import Trial
from tests.helpers import script


def tried(adapter: Adapter, place: Path, *, memory_bytes: int | None) -> Trial:
    """The trial of rung 0 on a CPU budget."""
    assert adapter.check() == []
    budget = devices.find("cpu", memory_bytes=memory_bytes, headroom=adapter.recipe.device.headroom)
    made = script.job(adapter, place, budget)
    found = trial.run(made, made.ladder.rungs[0])
    assert not (found.folder / "scratch").exists()
    return found
