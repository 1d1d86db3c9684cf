"""Fixtures that more than one package's tests use."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofit_launcher.trial import trial
from tests.helpers.few import Launches


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launches:
    made = Launches(tmp_path)
    monkeypatch.setattr(trial, "run", made.trial)
    return made
