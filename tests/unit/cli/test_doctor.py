"""The verb doctor: its lines, its JSON, its exit status, and the versions that trainers are relied upon in."""

from __future__ import annotations

import json

import pytest

from autofit_launcher.cli.main import run
from autofit_launcher.machine import checkup
from autofit_launcher.machine.checkup import Check


def test_every_line_is_told_and_the_exit_status_is_zero_where_nothing_stops(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "checks", lambda *_, **__: [Check(subject="card", found="none")])
    assert run(["doctor", "--json"]) == 0
    told = capsys.readouterr()
    record = json.loads(told.out.splitlines()[-1])
    assert record["stops"] == 0 and {"subject", "found", "needed", "cure", "stops"} == set(record["lines"][0])
    assert "Nothing would stop a launch" in told.err


def test_what_stops_a_launch_is_the_exitrun(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checkup, "checks", lambda *_, **__: [Check(subject="torch", found="old", needed="new", cure="Renew it.", stops=True)]
    )
    assert run(["doctor"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "STOPS: old. needed: new. To do: Renew it" in said and "Things that would stop a launch: 1" in said
