"""The checks that need a card (tests/gpu) hold on one that is played: PyTorch's own allocator decides, nothing stands in for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.helpers.pretended import needs_a_pretended_card, played


@pytest.mark.slow
@pytest.mark.timeout(1800)
@needs_a_pretended_card
def test_a_failed_trial_leaves_nothing_on_the_card_and_a_rung_that_checkpoints_has_expandable_segments(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "-rA", "--basetemp", str(tmp_path / "temp"), "tests/gpu"]
    with played("h100_80gb", computed="small") as environment:
        env = {name: value for name, value in environment.items() if name != "PYTEST_ADDOPTS"}
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]
