"""The one file of what launches learn: safe under launches that come together, begun anew where it is damaged, dispensable."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from launcher.history import database, kept_fits
from launcher.history.database import HistoryUnusableError
from launcher.history.kept_fits import FitHistory, KeptFit
from launcher.history.records import KeptTrialRecord

FIT = KeptFit(
    made=kept_fits.now(),
    training="mine",
    digest="abc",
    depends_on={"data": "1 file"},
    device="cpu",
    rung_index=1,
    rung={"micro_batch": 4, "x": None},
    least_cap_bytes=1,
    most_cap_bytes=kept_fits.ANY_CAP,
    trials=[KeptTrialRecord(rung_index=1, report={"uses": [1.5]})],
    run_dir="/runs/1",
    same={"verdict": "proven"},
)


def keep(fit: KeptFit = FIT) -> None:
    with kept_fits.opened() as fits:
        fits.keep(fit)


def kept() -> list[KeptFit]:
    with kept_fits.opened() as fits:
        return fits.all()


def aside() -> list[Path]:
    return [path for path in database.file().parent.iterdir() if ".damaged-" in path.name]


def test_a_row_is_read_back_as_it_was_written() -> None:
    keep()
    assert kept() == [replace(FIT, id=1)]


def test_launches_that_come_together_keep_everything() -> None:
    code = """
import sys
from launcher.history import kept_fits
for number in range(20):
    with kept_fits.opened() as fits:
        fits.begin(f"{sys.argv[1]} {number}", run_dir="")
"""
    children = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    with kept_fits.opened() as fits:
        assert len(fits.uses()) == 80


def test_a_change_that_fails_leaves_nothing_behind() -> None:
    with pytest.raises(KeyError), database.opened() as history, history.change():
        history.add("fits", FIT)
        raise KeyError
    assert kept() == []


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda _: b"a person's notes, in the wrong place"])
def test_a_damaged_file_is_set_aside_and_begun_anew(damage: object) -> None:
    keep()
    whole = database.file().read_bytes()
    database.file().write_bytes(damage(whole))  # type: ignore[operator]
    with database.opened() as history:
        assert "can't be read" in history.remark and str(aside()[0]) in history.remark
    assert [path.read_bytes() for path in aside()] == [damage(whole)]  # type: ignore[operator]
    keep()
    assert len(kept()) == 1 and len(aside()) == 1
    with database.opened() as history:
        assert not history.remark, "it is told once"


def test_a_file_of_another_version_is_set_aside() -> None:
    keep()
    with closing(sqlite3.connect(database.file())) as connection:
        connection.execute("pragma user_version = 99")
    with database.opened() as history:
        assert "version 99" in history.remark
    assert len(aside()) == 1


def test_what_another_launch_has_begun_anew_is_not_set_aside_once_more() -> None:
    keep()
    with closing(sqlite3.connect(database.file())) as connection, connection:
        connection.execute("update fits set depends_on = '{torn'")
    with pytest.raises(HistoryUnusableError, match="can't be used"), database.opened() as slower:
        with pytest.raises(HistoryUnusableError, match="was set aside"):
            kept()
        keep()
        FitHistory(slower).all()
    assert len(kept()) == 1 and len(aside()) == 1


def test_a_file_that_is_locked_or_can_not_be_written_is_done_without_and_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    keep()
    monkeypatch.setattr(database, "WAIT_S", 0.05)
    with closing(sqlite3.connect(database.file(), isolation_level=None)) as other:
        other.execute("begin exclusive")
        with pytest.raises(HistoryUnusableError, match="locked"):
            kept()
    assert len(kept()) == 1 and not aside()


def test_a_change_that_the_disk_has_no_room_for_is_undone() -> None:
    keep()
    with database.opened() as history:
        history.execute(f"pragma max_page_count = {history.execute('pragma page_count').fetchone()[0]}")
        with pytest.raises(sqlite3.OperationalError, match="full"), history.change():
            for _ in range(200):
                history.add("fits", FIT)
    assert len(kept()) == 1 and not aside()


def test_a_folder_that_can_not_be_made_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(HistoryUnusableError, match="can't be used"):
        kept()


def test_a_mistake_of_ours_sets_nothing_aside() -> None:
    @dataclass
    class Row:
        no_such_column: int

    keep()
    with pytest.raises(HistoryUnusableError, match="no_such_column"), database.opened() as history:
        history.rows(Row, "fits")
    with pytest.raises(HistoryUnusableError), database.opened() as history:
        history.execute("select ?", 1, 2)
    assert len(kept()) == 1 and not aside()
