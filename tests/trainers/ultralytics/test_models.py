"""launcher.trainers.ultralytics.models: names, files and folders, compared with the installed package's own source."""

from __future__ import annotations

import ast
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.trainers.ultralytics import models as yolo_models
from launcher.trainers.ultralytics.models import fetchable, locate, network_is_there, smaller
from tests.helpers.places import ROOT


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "config"))
    for name in ("HTTPS_PROXY", "https_proxy", "YOLO_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    network_is_there.cache_clear()
    yield
    network_is_there.cache_clear()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("yolov8x.pt", "yolov8l.pt yolov8m.pt yolov8s.pt yolov8n.pt"),
        ("yolov8x", "yolov8l yolov8m yolov8s yolov8n"),
        ("yolov8s.yaml", "yolov8n.yaml"),
        ("yolo11l-seg.yaml", "yolo11m-seg.yaml yolo11s-seg.yaml yolo11n-seg.yaml"),
        ("yolo26x-pose.pt", "yolo26l-pose.pt yolo26m-pose.pt yolo26s-pose.pt yolo26n-pose.pt"),
        ("yolov8x-p6.yaml", "yolov8l-p6.yaml yolov8m-p6.yaml yolov8s-p6.yaml yolov8n-p6.yaml"),
        ("yolov8x6.yaml", "yolov8l6.yaml yolov8m6.yaml yolov8s6.yaml yolov8n6.yaml"),
        ("models/yolov8m-obb.pt", "models/yolov8s-obb.pt models/yolov8n-obb.pt"),
        ("/data/yolov8m.yaml", "/data/yolov8s.yaml /data/yolov8n.yaml"),
        ("yolov5xu.pt", "yolov5lu.pt yolov5mu.pt yolov5su.pt yolov5nu.pt"),
        ("yolov5x6u.pt", "yolov5l6u.pt yolov5m6u.pt yolov5s6u.pt yolov5n6u.pt"),
        ("yolov9e.pt", "yolov9c.pt yolov9m.pt yolov9s.pt yolov9t.pt"),
        ("yolov9e-seg.pt", "yolov9c-seg.pt"),
        ("yolov9e-seg.yaml", "yolov9c-seg.yaml"),
        ("yolov10x.yaml", "yolov10l.yaml yolov10b.yaml yolov10m.yaml yolov10s.yaml yolov10n.yaml"),
        ("yolov8x-worldv2.pt", "yolov8l-worldv2.pt yolov8m-worldv2.pt yolov8s-worldv2.pt"),
        ("yoloe-11l-seg.pt", "yoloe-11m-seg.pt yoloe-11s-seg.pt"),
        ("yolov8x-pose-p6.pt", ""),  # only this size is published
        ("yolov8n.pt", ""),
        ("yolov8.yaml", ""),  # no letter: Ultralytics takes the smallest
        ("best.pt", ""),
        ("runs/detect/train/weights/best.pt", ""),
        ("my_yolov8x.pt", ""),
        ("rtdetr-x.pt", ""),
        ("yolov8x-rtdetr.yaml", ""),
        ("yolov3-spp.pt", ""),
        ("yolov8t.pt", ""),
    ],
)
def test_smaller_models_are_the_same_name_in_the_sizes_below(model: str, expected: str) -> None:
    assert smaller(model) == tuple(expected.split())


def test_assets_are_those_of_the_installed_ultralytics() -> None:
    root = yolo_models.package_root()
    assert root is not None
    tree = ast.parse((root / "utils" / "downloads.py").read_text(encoding="utf-8"))
    value = next(node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GITHUB_ASSETS_NAMES")
    theirs = eval(compile(ast.Expression(value), "downloads.py", "eval"), {"frozenset": frozenset})
    assert theirs == yolo_models.ASSETS


def test_weights_are_found_at_the_given_path_before_the_weights_dir(tmp_path: Path) -> None:
    _settings(tmp_path, weights_dir=str(tmp_path / "weights"))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "yolov8x.pt").write_bytes(b"x")
    found = locate("yolov8x.pt")
    assert (found.kind, found.path) == ("weights", tmp_path / "weights" / "yolov8x.pt")
    (tmp_path / "yolov8x.pt").write_bytes(b"x")
    assert locate("yolov8x.pt").path == Path("yolov8x.pt")
    assert locate("yolov8x").path == Path("yolov8x.pt")
    assert locate("yolov8x").kind == "bare"


def test_missing_weights_say_where_was_looked(tmp_path: Path) -> None:
    _settings(tmp_path, weights_dir=str(tmp_path / "weights"))
    found = locate("yolov5n.pt")
    assert found.path is None
    assert found.looked_in == (Path("yolov5nu.pt"), tmp_path / "weights" / "yolov5nu.pt")


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("yolov8x.yaml", "yolov8.yaml"),
        ("yolo11l-seg.yaml", "yolo11-seg.yaml"),
        ("yolov8x6.yaml", "yolov8-p6.yaml"),
        ("yolov5xu.yaml", "yolov5.yaml"),
        ("yolov9e.yaml", "yolov9e.yaml"),
        ("yolov10b.yaml", "yolov10b.yaml"),
        ("yolov8x-pose-p6.yaml", "yolov8-pose-p6.yaml"),
        ("rtdetr-l.yaml", "rtdetr-l.yaml"),
    ],
)
def test_an_architecture_is_its_familys_file_in_the_package(model: str, file: str) -> None:
    found = locate(model)
    assert found.kind == "architecture"
    assert found.path is not None
    assert found.path.name == file
    assert "cfg" in found.path.parts


def test_an_architecture_of_the_users_own_comes_before_the_packages(tmp_path: Path) -> None:
    (tmp_path / "yolov8.yaml").write_text("nc: 1\n")
    assert locate("yolov8x.yaml").path == Path("yolov8.yaml")
    assert locate("mine.yaml").path is None


def test_other_kinds_of_model_are_named() -> None:
    assert locate("https://example.org/yolov8x.pt").kind == "remote"
    assert locate("model.engine").kind == "other"


def test_fetchable_needs_a_published_name_and_the_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert network_is_there("127.0.0.1", server.getsockname()[1])
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    assert not network_is_there("127.0.0.1", closed)
    assert not fetchable("best.pt")  # never asks the network


def test_the_network_is_asked_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert fetchable("yolov8x.pt")
        assert fetchable("weights/yolov8x")
        assert not fetchable("yolov8x-mine.pt")


def test_offline_is_taken_at_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOLO_OFFLINE", "1")
    assert not fetchable("yolov8x.pt")


def test_settings_are_read_from_the_config_dir_and_defaults_hold_without(tmp_path: Path) -> None:
    assert yolo_models.settings_path() == tmp_path / "config" / "Ultralytics" / "settings.json"
    default = yolo_models.datasets_dir()
    assert default.name == "datasets"
    _settings(tmp_path, datasets_dir="/data/sets", weights_dir="/data/weights")
    assert yolo_models.datasets_dir() == Path("/data/sets")
    assert yolo_models.weights_dir() == Path("/data/weights")
    yolo_models.settings_path().write_text("{torn")
    assert yolo_models.datasets_dir() == default


def test_ultralytics_and_torch_are_never_imported() -> None:
    code = (
        "import sys; from launcher.trainers.ultralytics import models as m; m.smaller('yolov8x.pt'); m.locate('yolov8x.yaml');"
        "print([n for n in ('torch', 'ultralytics', 'numpy') if n in sys.modules])"
    )
    repo = ROOT
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=repo)
    assert shown.stdout.strip() == "[]"


def _settings(tmp_path: Path, **values: str) -> None:
    folder = tmp_path / "config" / "Ultralytics"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(values))
