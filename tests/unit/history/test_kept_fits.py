"""Kept fits are files that are written whole: a launch that relies on one takes it, what can't be read or written is done without."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from autofit_launcher.common import files
from autofit_launcher.history import kept_fits, owner
from autofit_launcher.history.kept_fits import KeptFit, RunFailure
from autofit_launcher.history.records import KeptTrialRecord

FIT = KeptFit(
    made=owner.now(), training="mine", digest="abc", depends_on={"data": "1 file"}, device="cpu", rung_index=1,
    rung={"micro_batch": 4, "x": None}, least_cap_bytes=1, most_cap_bytes=kept_fits.ANY_CAP,
    trials=[KeptTrialRecord(rung_index=1, report={"uses": [1.5, float("inf")]})], run_dir="/runs/1", same={"verdict": "proven"},
)  # fmt: skip


def keep(**other: object) -> None:
    kept_fits.keep(FIT.model_copy(update=other))


def kept() -> list[KeptFit]:
    return [known.fit for known in kept_fits.everything() if known.fit is not None]


def test_a_fit_is_read_back_as_it_was_written_and_replaces_the_one_before() -> None:
    keep()
    assert kept() == [FIT.model_copy(update={"id": 1})]
    keep(digest="other")
    keep(digest="other", least_cap_bytes=11)
    assert sorted((one.digest, one.id, one.least_cap_bytes) for one in kept()) == [("abc", 1, 1), ("other", 3, 11)]
    assert kept_fits.forget(3) == 1 and kept_fits.forget(3) == 0 and kept_fits.forget(None) == 1 and not kept()


def test_a_fit_is_in_no_file_while_a_launch_relies_on_it_and_never_again_once_a_run_has_disproved_it() -> None:
    keep()
    (fit,) = kept()
    kept_fits.take("mine", "abc", run_dir="/runs/2")
    assert not kept() and "/runs/2 relies on it just now" in str(kept_fits.of("mine", "abc").find(1))
    kept_fits.keep(fit)
    assert kept() == [fit], "under its number"
    failure = RunFailure(digest="abc", rung_index=1, training="mine", at=owner.now(), why="out", run_dir="/runs/3", cap_bytes=9)
    kept_fits.disprove(failure)
    kept_fits.keep(fit)
    assert not kept() and kept_fits.of("mine", "abc").failures_at(9) == [failure] and not kept_fits.of("mine", "abc").failures_at(10)


def test_a_change_that_has_no_room_leaves_the_file_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    keep()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        kept_fits.take("mine", "abc", run_dir="/runs/2")
    assert len(kept()) == 1


@pytest.mark.parametrize("damage", [b"{torn", b"a person's notes, in the wrong place", b'{"fit": {"made": 3}}', b"[]", None])
def test_a_file_that_can_not_be_read_is_not_used_and_disturbs_no_other(damage: bytes | None) -> None:
    keep()
    keep(digest="other")
    path = next(path for path in kept_fits.folder().glob("*-abc.json"))
    path.unlink()
    path.write_bytes(damage) if damage is not None else os.mkfifo(path)
    assert [one.digest for one in kept()] == ["other"] and kept_fits.of("mine", "abc") == kept_fits.KnownFits()
    keep()
    assert len(kept()) == 2


def test_a_folder_that_can_not_be_made_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert kept() == []
    with pytest.raises(OSError):
        keep()
