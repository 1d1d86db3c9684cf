"""Models of Ultralytics: smaller ones of a family, and the file that a name stands for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autofit_launcher.trainers.ultralytics.models import can_be_had, file_of, here, setting, smaller, weights_dir


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("YOLO_OFFLINE", raising=False)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("yolov8x.pt", "yolov8l.pt yolov8m.pt yolov8s.pt yolov8n.pt"),
        ("models/yolo11l-seg.yaml", "models/yolo11m-seg.yaml models/yolo11s-seg.yaml models/yolo11n-seg.yaml"),
        ("yolov5x6u.pt", "yolov5l6u.pt yolov5m6u.pt yolov5s6u.pt yolov5n6u.pt"),
        ("yolov10x.yaml", "yolov10l.yaml yolov10m.yaml yolov10s.yaml yolov10n.yaml"),
        ("yolov9m.pt", ""),
        ("yolov8n.pt", ""),
        ("yolov8.yaml", ""),  # no letter: Ultralytics takes the smallest
        ("my_yolov8x.pt", ""),
        ("yolov8x-rtdetr.yaml", ""),
    ],
)
def test_smaller_models_are_the_same_name_in_the_sizes_below(model: str, expected: str) -> None:
    assert smaller(model) == tuple(expected.split())


def test_a_floor_is_a_letter_or_a_model_of_the_family() -> None:
    for floor in ("m", "yolov8m.pt"):
        assert smaller("yolov8x.pt", floor) == ("yolov8l.pt", "yolov8m.pt") and smaller("yolov8s.pt", floor) == ()
    with pytest.raises(ValueError, match=r"no size of yolov8x\.pt; its sizes are x, l, m, s, n"):
        smaller("yolov8x.pt", "best.pt")


def test_weights_are_found_at_the_given_path_before_the_weights_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _settings(tmp_path, weights_dir=str(tmp_path / "weights"))
    assert here("yolov8x") is None and file_of("yolov8x") == "yolov8x.pt" and can_be_had("yolov8x")
    monkeypatch.setenv("YOLO_OFFLINE", "1")
    assert not can_be_had("yolov8x") and can_be_had("yolov8x.yaml")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "yolov8x.pt").write_bytes(b"x")
    assert here("yolov8x.pt") == tmp_path / "weights" / "yolov8x.pt" and can_be_had("yolov8x")
    (tmp_path / "yolov8x.pt").write_bytes(b"x")
    assert here("yolov8x") == Path("yolov8x.pt")


@pytest.mark.parametrize(("model", "file"), [("yolov8x.yaml", "yolov8.yaml"), ("yolov8x6.yaml", "yolov8-p6.yaml"), ("my.yaml", "my.yaml")])
def test_an_architecture_of_the_users_own_is_found_which_a_kept_fit_hangs_on(tmp_path: Path, model: str, file: str) -> None:
    assert here(model) is None
    (tmp_path / file).write_text("nc: 1\n")
    assert here(model) == Path(file)


def test_settings_that_ultralytics_writes_itself_are_those_that_it_had_before(tmp_path: Path) -> None:
    """The first full run on a new machine makes settings.json; the next launch must find its fit kept."""
    before = bool(setting("tensorboard")), weights_dir().resolve()
    subprocess.run([sys.executable, "-c", "import ultralytics"], check=True, capture_output=True)
    assert (tmp_path / "config" / "Ultralytics" / "settings.json").is_file()
    assert (bool(setting("tensorboard")), weights_dir()) == before
    _settings(tmp_path, tensorboard="true")
    assert setting("tensorboard")
    (tmp_path / "config" / "Ultralytics" / "settings.json").write_text("{torn")
    assert setting("tensorboard") is None


def _settings(tmp_path: Path, **values: str) -> None:
    folder = tmp_path / "config" / "Ultralytics"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(values))
