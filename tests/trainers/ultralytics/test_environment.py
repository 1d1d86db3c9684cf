"""The environment of a trial: where Ultralytics keeps the user's settings is where we look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ultralytics")
from autofit_launcher.trainers.ultralytics import environment


@pytest.mark.parametrize(
    "case",
    [
        {"YOLO_CONFIG_DIR": "chosen"},
        {"YOLO_CONFIG_DIR": "~/chosen"},
        {"XDG_CONFIG_HOME": "xdg"},
        {"XDG_CONFIG_HOME": ""},
        {"YOLO_CONFIG_DIR": ""},
    ],
)
def test_the_users_settings_are_looked_for_where_ultralytics_keeps_them(
    case: dict[str, str], exact: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ultralytics.utils import get_user_config_dir

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("YOLO_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, case[name]) if name in case else monkeypatch.delenv(name, raising=False)
    before = environment.user_config_folder()
    assert before == get_user_config_dir() == environment.user_config_folder(), "before Ultralytics has made it, too"


def test_the_users_settings_are_copied_with_sync_off_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "home" / "Ultralytics" / "settings.json"
    settings.parent.mkdir(parents=True)
    said = json.dumps({"settings_version": "0.0.8", "datasets_dir": "/data", "sync": True})
    settings.write_text(said)
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "home"))
    made = environment.prepare(tmp_path / "trial")
    copied = json.loads((Path(made["YOLO_CONFIG_DIR"]) / "Ultralytics" / "settings.json").read_text())
    assert copied == {"settings_version": "0.0.8", "datasets_dir": "/data", "sync": False} and settings.read_text() == said
    settings.write_text("{not json")
    environment.prepare(tmp_path / "another")
