"""What a run has saved is found where it may lie, and says by its weights whether they are finite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from launcher.trainers.script import resuming, weight_files

NAN = float("nan")


def touched(path: Path, at: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at, at))
    return path


def test_what_was_written_since_is_found_in_the_folder_and_where_the_command_says_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    here, run, named = Path("models/epoch1.pt"), Path("runs/mine/run/epoch2.pt"), tmp_path / "away" / "model.safetensors"
    for at, path in enumerate([here, run, named], start=101):
        touched(path, at)
    os.symlink(tmp_path / "away", "linked")  # a second way to the same file
    for other in ("models/before.pt", "notes.txt", "runs/others/run/last.pt", ".cache/x.pt", "venv/lib/x.pt"):
        touched(Path(other), 50 if "before" in other else 200)
    touched(Path("venv/pyvenv.cfg"), 200)
    folders = weight_files.folders(["python", "train.py", f"--output_dir={tmp_path / 'away'}", "--lr", "0.1"])
    found = weight_files.written([Path("runs/mine/run"), Path.cwd(), *folders], since=100, without=Path("runs"))
    assert [path.resolve() for path in found] == [path.resolve() for path in (named, run, here)]


@pytest.mark.parametrize(
    ("saved", "finite"),
    [
        ({"layer.weight": torch.full((3, 4), NAN)}, False),
        ({"model": {"layer.weight": torch.ones(3, 4), "layer.bias": torch.tensor([NAN])}}, False),
        ({"model": {"layer.weight": torch.ones(3, 4)}, "metrics": torch.full((3, 4), NAN)}, True),
        (torch.nn.Linear(2, 2), True),
        (torch.full((3, 4), NAN), None),  # a data set that has gaps, saved by the script
        ({"features": torch.full((3, 4), NAN)}, None),
    ],
)
def test_a_file_that_nobody_calls_a_checkpoint_speaks_only_where_its_tensors_have_a_models_names(
    tmp_path: Path, saved: object, finite: bool | None
) -> None:
    torch.save(saved, tmp_path / "saved.pt")
    told = resuming.last_weights([tmp_path / "saved.pt"], program=sys.executable, named=True)
    assert (told.finite if told is not None else None) is finite


def test_a_newer_file_without_weights_says_nothing_of_the_weights_before_it(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "state.pt")
    torch.save({"layer.weight": torch.full((3, 4), NAN)}, tmp_path / "model.pt")
    told = resuming.last_weights([tmp_path / "state.pt", tmp_path / "model.pt"], program=sys.executable, named=True)
    assert told is not None and told.path == tmp_path / "model.pt" and not told.finite
