"""How much of a CPU's budget stays free."""

from __future__ import annotations

import pytest

from autofit_launcher.engine.launch import above_trial
from autofit_launcher.history.records import MemoryRecord
from autofit_launcher.machine import devices

MIB = 2**20


@pytest.mark.parametrize(
    ("budget", "part", "cap", "words"),
    [
        (1000, 0.25, 750, "25%"),
        (80, 0.25, 16, "64 MiB"),  # a quarter would be less than a run may differ from its trial by
        (400, 0.05, 336, "64 MiB"),
        (100, 0.0, 100, "0%"),  # none is asked
    ],
)
def test_no_less_stays_free_than_two_processes_differ_by(budget: int, part: float, cap: int, words: str) -> None:
    assert devices.cap_of(budget * MIB, part) == cap * MIB
    assert devices.words(budget * MIB, part, kind="cpu") == words
    assert devices.budget_for(cap * MIB, part) == budget * MIB


def test_a_cards_headroom_is_a_part_of_it() -> None:
    assert devices.budget_for(90 * MIB, 0.1, kind="cuda") == 100 * MIB and devices.words(100 * MIB, 0.1, kind="cuda") == "10%"


@pytest.mark.parametrize(
    ("trial", "run", "told"), [(229, 239, False), (229, 296, True), (4000, 4070, False), (4000, 4090, True), (0, 100, False)]
)
def test_what_two_processes_that_do_the_same_may_differ_by_is_no_run_above_its_trial(trial: int, run: int, told: bool) -> None:
    memory = MemoryRecord(trial_peak_bytes=trial * MIB, run_peak_bytes=run * MIB, cap_bytes=8000 * MIB, budget_bytes=9000 * MIB)
    assert above_trial(memory) is told
