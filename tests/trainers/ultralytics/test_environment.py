"""The environment of a trial: where Ultralytics keeps the user's settings is where we look."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ultralytics")
from launcher.trainers.ultralytics import environment

ASKS_BOTH = """
import json, os, sys
from pathlib import Path
from ultralytics.utils import get_user_config_dir
from launcher.trainers.ultralytics.environment import user_config_folder

for case in json.loads(sys.argv[1]):
    for name in ("YOLO_CONFIG_DIR", "XDG_CONFIG_HOME"):
        os.environ.pop(name, None)
    os.environ.update(case)
    before = str(user_config_folder())
    theirs = str(get_user_config_dir())
    print(json.dumps([case, theirs, str(user_config_folder()), before]))
"""


def test_the_users_settings_are_looked_for_where_ultralytics_keeps_them(tmp_path: Path) -> None:
    cases = [
        {"YOLO_CONFIG_DIR": str(tmp_path / "chosen")},
        {"YOLO_CONFIG_DIR": "~/chosen"},
        {"XDG_CONFIG_HOME": str(tmp_path / "xdg")},
        {"XDG_CONFIG_HOME": ""},
        {"YOLO_CONFIG_DIR": ""},
    ]
    env = {**os.environ, "HOME": str(tmp_path / "home"), "YOLO_CONFIG_DIR": str(tmp_path / "first")}
    command = [sys.executable, "-c", ASKS_BOTH, json.dumps(cases)]
    asked = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert asked.returncode == 0, asked.stderr
    answers = [json.loads(line) for line in asked.stdout.splitlines() if line.startswith("[{")]
    assert len(answers) == len(cases)
    for case, theirs, ours, before in answers:
        assert ours == theirs, case
        assert before == theirs, "before Ultralytics has made it, too"


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
