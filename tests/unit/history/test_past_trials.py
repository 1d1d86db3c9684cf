"""What is kept of trials, and what becomes of a file that can't be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.history import past_trials
from launcher.history.past_trials import PastTrial


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trial(need: float = 3.0, *, training: str = "mine", device: str = "cpu") -> PastTrial:
    return PastTrial(
        training=training, device=device, rung={"micro_batch": 4, "frozen": [1, 2]}, fits=True, phase="done", need_bytes=need,
        by_phase={"train": need},
    )  # fmt: skip


def of_mine() -> list[PastTrial]:
    return past_trials.of("mine", device="cpu")


def test_trials_come_back_oldest_first() -> None:
    assert of_mine() == []
    for need in (1.0, 2.0):
        past_trials.keep(trial(need))
    assert of_mine() == [trial(1.0), trial(2.0)]


def test_another_training_another_device_and_another_folder_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past_trials.keep(trial(training="other"))
    past_trials.keep(trial(device="gpu"))
    assert of_mine() == []
    past_trials.keep(trial())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert of_mine() == []


def test_a_torn_line_and_one_of_another_version_spoil_no_other() -> None:
    past_trials.keep(trial(1.0))
    with past_trials.file().open("a") as file:
        file.write('\n{"folder": 3, "what": "else"}\n[1]\n{"training": "mi')
    past_trials.keep(trial(2.0))
    assert of_mine() == [trial(1.0), trial(2.0)]


def test_a_file_that_cannot_be_used_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past_trials.keep(trial())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    past_trials.keep(trial())
    assert of_mine() == []


def test_of_a_large_file_the_newer_half_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_trials, "MOST_BYTES", 2000)
    for need in range(50):
        past_trials.keep(trial(float(need)))
    kept = [one.need_bytes for one in of_mine()]
    assert 3 < len(kept) < 20 and kept == [float(need) for need in range(50 - len(kept), 50)]
