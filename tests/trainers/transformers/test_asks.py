"""Asks at random on nasty data, really tried and run to their end: no run needs more than its trial showed, none dies near its need."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from launcher.engine.state import REPORTED
from tests.trainers.transformers import asks

pytestmark = pytest.mark.slow

NOISE_BYTES = 2 * 2**20
"""What two processes that do the same differ by; more than 2 % of a small need (docs/decisions/004)."""


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the data, made once."""
    return tmp_path_factory.mktemp("asks")


@pytest.mark.parametrize("seed", range(8))
def test_a_run_needs_no_more_than_its_trial_showed_and_does_not_die_just_above_that(seed: int, place: Path) -> None:
    asked = asks.ask(seed, place / "data")
    fit = asks.launch(asked, place / "runs")
    said = asks.told(seed, asked, fit)
    assert fit.memory is not None and fit.outcome is not None and fit.outcome.done, said
    assert fit.memory.run_peak_bytes <= max(REPORTED * fit.memory.trial_peak_bytes, fit.memory.trial_peak_bytes + NOISE_BYTES), said
    again = asks.near(asked, fit.memory.trial_peak_bytes, random.Random(seed))
    close = asks.launch(again, place / "runs")
    assert close.outcome is None or close.outcome.done, asks.told(seed, again, close)
