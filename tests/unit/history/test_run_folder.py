"""The run folder, its record and its series: never shared, never torn."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from autofit_launcher.errors import BadInput
from autofit_launcher.full_run import run
from autofit_launcher.history import records, series
from autofit_launcher.history.records import Record
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.series import Series, seconds_left
from tests.helpers.few import Launches
from tests.helpers.places import ROOT
from tests.helpers.stand_in import watched

NOW = datetime(2026, 11, 21, 12, 0, 0)


def make(root: str) -> str:
    return str(RunFolder.create(Path(root), "demo", now=NOW).path)


def test_two_launches_at_once_never_share_a_folder(tmp_path: Path) -> None:
    with multiprocessing.Pool(8) as pool:
        folders = pool.map(make, [str(tmp_path)] * 24)
    assert len(set(folders)) == 24


def test_a_root_that_can_not_be_written_is_a_fault_of_run_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput) as refused:
        RunFolder.create(tmp_path / "file" / "runs", "demo")
    assert refused.value.faults[0].key == "run.root"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_leaves_the_old_record_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create(tmp_path, "demo")
    folder.replace_json(folder.record, {"status": "before"})
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        folder.replace_json(folder.record, {"status": "after"})
    assert json.loads(folder.record.read_text()) == {"status": "before"}
    assert sorted(path.name for path in folder.path.iterdir()) == [".gitignore", "record.json", "trials"], (
        "nothing half-written lies beside"
    )


RECORDS = ROOT / "tests" / "data" / "records"


def parts(of: BaseModel) -> Iterator[BaseModel]:
    """It, and every part of it."""
    yield of
    for _, value in of:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, BaseModel):
                yield from parts(one)


@pytest.mark.parametrize("name", ["format_1", "format_2"])
def test_a_record_is_read_and_written_again_with_every_key_that_it_had(name: str) -> None:
    path = RECORDS / f"{name}.json"
    record = Record.read(path)
    assert record is not None and record.written() == json.loads(path.read_text(encoding="utf-8"))
    assert [one.model_extra for one in parts(record)] == [{}] * len(list(parts(record))), "no key is without a name in the schema"


def test_what_a_launch_writes_has_no_key_without_a_name_in_the_schema(launches: Launches) -> None:
    launches.fault = "raise KeyError('typo')"
    fit = launches.train()
    record = Record.read(fit.job.folder.record)
    assert record is not None and record.written() == fit.as_record() and record.attempts[0].ended == "crashed"
    assert record.run is not None and record.memory is not None and record.kept == fit.reuse.record
    assert [one.model_extra for one in parts(record) if one.model_extra] == []


def test_a_later_ones_key_is_kept_and_a_record_that_is_torn_or_of_another_shape_is_none(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"status": "done", "of_a_later_one": {"a": 1}}', encoding="utf-8")
    record = Record.read(path)
    assert record is not None and record.written() == {"status": "done", "of_a_later_one": {"a": 1}}
    for torn in ('{"status": "done", "rung_index": "lowest"}', '{"status": "do'):
        path.write_text(torn, encoding="utf-8")
        assert Record.read(path) is None


def test_the_published_schema_is_that_of_the_record() -> None:
    published = (ROOT / "docs" / "record.schema.json").read_text(encoding="utf-8")
    assert published == records.schema(), "make schema"


def line(at: float, **more: Any) -> dict[str, Any]:
    return {"at": at, "used_bytes": 1, "peak_bytes": 1, **more}


def test_what_is_added_is_read_back_in_order_without_what_is_not_known(tmp_path: Path) -> None:
    kept = Series(tmp_path / "series.jsonl")
    kept.add(line(1.0, loss=0.123456789, step=None))
    kept.add(line(2.0, loss=float("nan")))
    assert series.read(tmp_path / "series.jsonl") == [line(1.0, loss=0.123456789), line(2.0, loss="nan")]


def test_a_torn_line_is_passed_over_and_a_later_attempt_goes_on_behind(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    path.write_text(json.dumps(line(1.0)) + "\n" + '{"at": 2.0, "used')
    Series(path).add(line(3.0))
    assert [one["at"] for one in series.read(path)] == [1.0, 3.0]


def test_a_new_peak_and_the_end_are_written_though_no_line_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1e9]
    monkeypatch.setattr(run.time, "time", lambda: clock[0])
    one, _ = watched(tmp_path, now_bytes=5, peak_bytes=5, lately=lambda: one._usage.peak_bytes)
    one.look()
    for at, peak in ((4000, 5), (4001, 5), (4002, 9), (4003, 9), (4004, 9)):
        clock[0], one._usage.peak_bytes = 1e9 + at, peak
        one.look(ended=at == 4004)
    assert [(told["at"] - 1e9, told["peak_bytes"]) for told in series.read(tmp_path / "series.jsonl")] == [
        (0, 5), (4000, 5), (4002, 9), (4004, 9),
    ]  # fmt: skip


def test_the_time_left_is_by_what_was_done_since_the_start() -> None:
    lines = [line(0.0, done=0.9), line(100.0, done=0.5), line(110.0), line(120.0, done=0.6)]
    assert seconds_left(lines, since=50.0) == pytest.approx(80.0)
    assert seconds_left(lines, since=115.0) is None and seconds_left([], since=0.0) is None
