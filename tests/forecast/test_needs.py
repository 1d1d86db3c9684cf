"""What the search is told: parts of the cap by rung, and what a real trial teaches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launcher import wheels
from launcher.contract.report import Phase, PhaseUse
from launcher.forecast import needs, ratios
from launcher.trainers.suite import cpu_budget
from tests.forecast.test_plan import adapter, keep_traces


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("YOLO_OFFLINE", "true")


def test_lower_rungs_need_a_smaller_part_of_the_cap() -> None:
    one = adapter()
    ladder = wheels.ladder_of(one)
    keep_traces(one, ladder, cuda=False)
    parts = needs.parts(needs.foresight(one, ladder, cpu_budget()), 2**30)
    batches = [parts[rung.index] for rung in ladder.rungs if not rung.values["checkpointing"]]
    assert None not in batches and batches == sorted(batches, key=lambda part: -(part or 0)) and len(batches) == 6


def test_a_real_peak_is_kept_and_corrects_the_next_launch() -> None:
    one = adapter()
    ladder = wheels.ladder_of(one)
    keep_traces(one, ladder, cuda=False)
    budget = cpu_budget()
    sight = needs.foresight(one, ladder, budget)
    foreseen = sight.uncorrected(ladder.asked)
    assert foreseen is not None
    real = foreseen[Phase.TRAIN].middle_bytes + 2**26
    uses = [PhaseUse(phase="train", seconds=1.0, reserved_bytes=real), PhaseUse(phase="setup", seconds=1.0, reserved_bytes=1)]
    ratios.keep(needs.seen(sight, ladder.asked, uses, device=budget.name))
    again = needs.foresight(one, ladder, budget).of(ladder.rungs[1])
    before = sight.uncorrected(ladder.rungs[1])
    assert again is not None and before is not None
    assert again[Phase.TRAIN].middle_bytes == before[Phase.TRAIN].middle_bytes + 2**26


def test_a_card_that_the_catalogue_does_not_know_is_taken_as_it_is() -> None:
    card = needs.card_of(replace(cpu_budget(), kind="cuda", name="NVIDIA Something 9000", total_bytes=2**34))
    assert card.usable_bytes == 2**34 and card.lean == 0.5
