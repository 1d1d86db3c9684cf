"""The checks that need a card (tests/gpu) hold on one that is played: PyTorch's own allocator decides, nothing stands in for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.helpers.pretended import needs_a_pretended_card, played

pytestmark = [needs_a_pretended_card, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def h100() -> Iterator[dict[str, str]]:
    with played("h100_80gb", computed="small") as environment:
        yield environment


def checked(environment: dict[str, str], which: str, place: Path, *files: str) -> str:
    """What pytest says of the GPU checks with these words in their names."""
    argv = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "-rA", "--tb=long", "--basetemp", str(place / "temp")]
    env = {**environment, "GPU_TESTS_RESULTS": str(place / "gpu-tests.jsonl"), "COLUMNS": "140"}
    env.pop("PYTEST_ADDOPTS", None)
    argv += ["-k", which, *(os.path.join("tests", "gpu", file) for file in files)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_a_failed_trial_leaves_nothing_on_the_card_and_a_rung_that_checkpoints_has_expandable_segments(
    h100: dict[str, str], tmp_path: Path
) -> None:
    said = checked(h100, "nothing_is_left or expandable_segments or unbudgeted", tmp_path, "test_cuda.py")
    assert "3 passed" in said, "none is skipped where a card is there"
