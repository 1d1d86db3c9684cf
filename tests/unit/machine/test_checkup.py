"""What is looked at before a launch: found, needed, what to do; and what would stop one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autofit_launcher.cli.main import run
from autofit_launcher.machine import checkup, host
from autofit_launcher.machine.checkup import Check
from autofit_launcher.machine.packages import Torch
from tests.helpers.nvml_stand_in import GIB, FakeCard, FakeNvml


@pytest.fixture
def torch_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "torch_of", lambda python: Torch(folder=Path(), version="2.11", cuda="13.2"))


def looked(place: Path, *cards: FakeCard, cuda: int = 13000, **environ: str) -> dict[str, Check]:
    """By subject."""
    nvml = FakeNvml(*cards)
    nvml.cuda = cuda
    return {line.subject: line for line in checkup.checks(environ, folder=place, nvml=nvml)}


def test_a_machine_that_can_launch_has_nothing_that_stops(tmp_path: Path, torch_for: None) -> None:
    lines = looked(tmp_path, FakeCard())
    assert not [line for line in lines.values() if line.stops]
    assert "RTX 4080" in lines["cuda:0"].found and "built for CUDA 13.2" in lines["torch"].found


def test_a_driver_that_is_too_old_for_pytorchs_build_stops(tmp_path: Path, torch_for: None) -> None:
    line = looked(tmp_path, FakeCard(), cuda=12080)["torch"]
    assert line.stops and "CUDA 12" in line.needed and "driver" in line.cure


def test_pytorch_without_cuda_stops_where_a_card_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "torch_of", lambda python: Torch(folder=Path(), version="2.11", cuda=""))
    assert looked(tmp_path, FakeCard())["torch"].stops
    nowhere = {line.subject: line for line in checkup.checks({}, folder=tmp_path, nvml=FakeNvml(error=12))}  # no library
    assert not nowhere["torch"].stops and "without CUDA" in nowhere["torch"].found


def test_a_card_that_others_hold_stops_and_a_desktop_does_not(tmp_path: Path, torch_for: None) -> None:
    held = looked(tmp_path, FakeCard(used=8 * GIB))["cuda:0"]
    assert held.stops and "8.0 GiB" in held.found and "device.share" in held.cure
    desktop = looked(tmp_path, FakeCard(used=2 * GIB, graphics=[(1, 2 * GIB)]))["cuda:0"]
    assert not desktop.stops and "the budget is the 13.8 GiB that others leave free" in desktop.found


def test_a_folder_for_runs_that_cannot_be_written_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "not_writable", lambda place: PermissionError(13, "Permission denied") if place == tmp_path else None)
    lines = {line.subject: line for line in checkup.checks({}, folder=tmp_path, nvml=FakeNvml(error=12))}
    assert lines["runs"].stops and "Permission denied" in lines["runs"].found


def test_what_stops_a_launch_is_told_and_is_the_exit_status(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [Check(subject="card", found="none"), Check(subject="torch", found="old", needed="new", cure="Renew it.", stops=True)]
    monkeypatch.setattr(checkup, "checks", lambda *_, **__: lines[:1])
    assert run(["doctor", "--json"]) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["stops"] == 0 and {"subject", "found", "needed", "cure", "stops"} == set(record["lines"][0])
    monkeypatch.setattr(checkup, "checks", lambda *_, **__: lines)
    assert run(["doctor"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "STOPS: old. needed: new. To do: Renew it" in said and "Things that would stop a launch: 1" in said
