"""What twins wrote down, read back."""

from __future__ import annotations

from pathlib import Path

from launcher.ladder.twins import Step
from launcher.trial.twins import read
from tests.helpers.updates import write


def test_what_a_twin_wrote_is_read_back(tmp_path: Path) -> None:
    write(tmp_path, 7, steps=[{"optimizer": 0, "rows": 4, "backwards": 1, "settings": [{"lr": 0.1}], "kind": "SGD", "weights": "w"}])
    found = read(tmp_path, micro_batch=4, accumulation=1)
    assert found.steps == (Step(optimizer=0, rows=4, backwards=1, settings=({"lr": 0.1},), weights="w"),) and found.ended == "exit"
    assert found.rows == ("a", "b") and found.whole == 64
    write(tmp_path, 8, steps=[{"optimizer": 0, "rows": 4, "backwards": 1, "settings": [], "against": {"apart": 0.5}}])
    assert read(tmp_path, micro_batch=4, accumulation=1).why == "2 processes train together"
    assert read(tmp_path / "none", micro_batch=4, accumulation=1).why == "no optimizer of torch's made a step"
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "log").write_text("Traceback\nModuleNotFoundError: No module named 'soundfile'\n\n", encoding="utf-8")
    assert "No module named 'soundfile'" in read(tmp_path / "early", micro_batch=4, accumulation=1).why
