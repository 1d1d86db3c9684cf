"""What ``autofit plan`` refuses before anything is played."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autofit_launcher.cli import main

SCRIPT = """import argparse, torch
p = argparse.ArgumentParser()
p.add_argument('--batch-size', type=int)
for _ in range(3):
    torch.zeros(1).backward()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)


def test_a_card_that_is_not_known_and_no_card_at_all_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, found in ((("gpu=rtx4080",), "rtx_4080s"), ((), "gpu=a100_40gb")):
        status = main.run(["plan", "recipe=yolo_demo", *words, "--json"])
        (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
        assert status == 1 and (fault["where"], fault["key"]) == ("command line", "gpu") and found in fault["cure"]


def test_a_script_whose_python_has_no_pytorch_can_not_be_played_on_a_card_that_is_not_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autofit_launcher.machine.devices.identity", lambda kind, *, index: "cpu")
    (tmp_path / "python").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    status = main.run(["plan", "gpu=t4", "--json", "--", "python", "train.py", "--batch-size", "8"])
    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert status == 1 and fault["found"] == f"{tmp_path / 'python'} has no PyTorch" and "Install torch there" in fault["cure"]
    assert not (tmp_path / "runs").exists()
