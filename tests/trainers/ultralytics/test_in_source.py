"""A script that has Ultralytics' settings in its source is refused in words that say where they stand and which command trains the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.cli import recognise
from launcher.errors import BadInput

HEAD = "from ultralytics import YOLO\n"
BY_DICT = """config = {'data': 'd.yaml', 'batch': 64, 'imgsz': 1280, 'device': [0, 1, 2, 3], 'epochs': 200}
model = YOLO('yolov8x.pt')
results = model.train(**config)
"""
BY_KEYWORD = "YOLO('yolo11l.pt').train(data=find_data(), batch=16, imgsz=640)\n"
BY_ARGUMENT = "model = YOLO('yolo11l.pt')\nmodel.train(data='d.yaml', batch=args.batch)\n"


def refused(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(HEAD + source)
    with pytest.raises(BadInput) as caught:
        recognise.understand(["python", "train.py"])
    return str(caught.value.faults[0])


def test_settings_in_a_dict_become_the_command_that_trains_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = refused(BY_DICT, tmp_path, monkeypatch)
    assert "train.py line 4 gives Ultralytics its batch (64) in the source" in words
    assert "autofit run -- yolo train model=yolov8x.pt data=d.yaml batch=64 imgsz=1280 epochs=200." in words


def test_what_can_not_be_read_is_left_open_in_that_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = refused(BY_KEYWORD, tmp_path, monkeypatch)
    assert "yolo train model=yolo11l.pt batch=16 imgsz=640 data=..." in words


CHANGED = BY_DICT.replace("model =", "config['batch'] = args.batch\nmodel =")


@pytest.mark.parametrize("source", [BY_ARGUMENT, CHANGED, "print('no training')\n", "loop.train(batch=8)\n", "def broken(:\n"])
def test_other_scripts_are_not_ultralytics_affair(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(HEAD + source)
    assert recognise.understand(["python", "train.py"]).adapter == "script"
