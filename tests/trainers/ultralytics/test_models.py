"""Models of Ultralytics: smaller ones of a family, and what a name stands for, as Ultralytics itself would find it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autofit_launcher.errors import BadInput
from autofit_launcher.trainers.ultralytics import models as yolo_models
from autofit_launcher.trainers.ultralytics.models import assets, fetchable, network_is_there, setting, smaller, start_of, weights_dir


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "config"))
    for name in ("HTTPS_PROXY", "https_proxy", "YOLO_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    network_is_there.cache_clear()
    yield
    network_is_there.cache_clear()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("yolov8x.pt", "yolov8l.pt yolov8m.pt yolov8s.pt yolov8n.pt"),
        ("yolov8s.yaml", "yolov8n.yaml"),
        ("yolo11l-seg.yaml", "yolo11m-seg.yaml yolo11s-seg.yaml yolo11n-seg.yaml"),
        ("yolov8x6.yaml", "yolov8l6.yaml yolov8m6.yaml yolov8s6.yaml yolov8n6.yaml"),
        ("models/yolov8m-obb.pt", "models/yolov8s-obb.pt models/yolov8n-obb.pt"),
        ("yolov5x6u.pt", "yolov5l6u.pt yolov5m6u.pt yolov5s6u.pt yolov5n6u.pt"),
        ("yolov9e.pt", "yolov9c.pt yolov9m.pt yolov9s.pt yolov9t.pt"),
        ("yolov10x.yaml", "yolov10l.yaml yolov10b.yaml yolov10m.yaml yolov10s.yaml yolov10n.yaml"),
        ("yoloe-11l-seg.pt", "yoloe-11m-seg.pt yoloe-11s-seg.pt yoloe-11n-seg.pt"),
        ("yolov8n.pt", ""),
        ("yolov8.yaml", ""),  # no letter: Ultralytics takes the smallest
        ("best.pt", ""),
        ("my_yolov8x.pt", ""),
        ("yolov8x-rtdetr.yaml", ""),
        ("yolov8t.pt", ""),
    ],
)
def test_smaller_models_are_the_same_name_in_the_sizes_below(model: str, expected: str) -> None:
    assert smaller(model) == tuple(expected.split())


@pytest.mark.parametrize("floor", ["m", "yolov8m.pt"])
def test_a_floor_is_a_letter_or_a_model(floor: str) -> None:
    assert smaller("yolov8x.pt", floor) == ("yolov8l.pt", "yolov8m.pt") and smaller("yolov8s.pt", floor) == ()


@pytest.mark.parametrize("floor", ["q", "best.pt"])
def test_a_floor_that_is_no_size_is_refused_with_the_sizes(floor: str) -> None:
    with pytest.raises(ValueError, match=r"no size of yolov8x\.pt; its sizes are x, l, m, s, n"):
        smaller("yolov8x.pt", floor)


def test_what_can_be_downloaded_is_read_from_the_installed_version() -> None:
    assert {"yolov8x.pt", "yolo11n-seg.pt", "yolov10b.pt", "yolov5nu.pt"} < assets() and len(assets()) > 100


def test_weights_are_found_at_the_given_path_before_the_weights_dir(tmp_path: Path) -> None:
    _settings(tmp_path, weights_dir=str(tmp_path / "weights"))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "yolov8x.pt").write_bytes(b"x")
    assert start_of("yolov8x.pt").path == tmp_path / "weights" / "yolov8x.pt"
    (tmp_path / "yolov8x.pt").write_bytes(b"x")
    assert start_of("yolov8x.pt").path == Path("yolov8x.pt")
    assert (start_of("yolov8x").file, start_of("yolov8x").path) == ("yolov8x.pt", Path("yolov8x.pt"))


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("yolov5n.pt", "isn't here and can't be fetched (looked for yolov5nu.pt, "),
        ("mine.yaml", "looked for mine.yaml"),
        ("https://example.org/yolov8x.pt", "looked for nowhere"),
        ("model.engine", "it isn't a .pt or .yaml file"),
    ],
)
def test_what_cant_be_had_says_where_was_looked(monkeypatch: pytest.MonkeyPatch, model: str, found: str) -> None:
    monkeypatch.setenv("YOLO_OFFLINE", "1")
    with pytest.raises(BadInput) as refused:
        start_of(model)
    assert found in refused.value.faults[0].found and yolo_models.from_weights(model) is None


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("yolov8x.yaml", "yolov8.yaml"),
        ("yolo11l-seg.yaml", "yolo11-seg.yaml"),
        ("yolov8x6.yaml", "yolov8-p6.yaml"),
        ("yolov5xu.yaml", "yolov5.yaml"),
        ("yolov8x-pose-p6.yaml", "yolov8-pose-p6.yaml"),
        ("rtdetr-l.yaml", "rtdetr-l.yaml"),
    ],
)
def test_an_architecture_is_its_familys_file_in_the_package(model: str, file: str) -> None:
    found = start_of(model)
    assert found.path is not None and found.path.name == file and "cfg" in found.path.parts
    assert yolo_models.from_weights(model) is False


def test_an_architecture_of_the_users_own_comes_before_the_packages(tmp_path: Path) -> None:
    (tmp_path / "yolov8.yaml").write_text("nc: 1\n")
    assert start_of("yolov8x.yaml").path == Path("yolov8.yaml")


def test_fetchable_needs_a_published_name_and_a_network_which_is_asked_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert fetchable("yolov8x.pt") and not fetchable("yolov8x-mine.pt")
        assert start_of("yolov8x").note == "yolov8x.pt isn't here yet: Ultralytics will download it"
    network_is_there.cache_clear()
    assert not fetchable("yolov8x.pt"), "nobody listens there any more"


def test_settings_are_read_from_the_config_dir_and_defaults_hold_without(tmp_path: Path) -> None:
    default = weights_dir()
    assert default.name == "weights" and setting("tensorboard") is None
    _settings(tmp_path, weights_dir="/data/weights")
    assert weights_dir() == Path("/data/weights")
    (tmp_path / "config" / "Ultralytics" / "settings.json").write_text("{torn")
    assert weights_dir() == default


def test_settings_that_ultralytics_writes_itself_are_those_that_it_had_before(tmp_path: Path) -> None:
    """The first full run on a new machine makes settings.json; the next launch must find its fit kept."""
    before = bool(setting("tensorboard")), weights_dir().resolve()
    subprocess.run([sys.executable, "-c", "import ultralytics"], check=True, capture_output=True)
    assert (tmp_path / "config" / "Ultralytics" / "settings.json").is_file()
    assert (bool(setting("tensorboard")), weights_dir()) == before
    _settings(tmp_path, tensorboard="true")
    assert setting("tensorboard")


def _settings(tmp_path: Path, **values: str) -> None:
    folder = tmp_path / "config" / "Ultralytics"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(values))
