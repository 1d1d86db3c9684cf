"""examples/digits/make_digits.py: the demo dataset passes autofit's check, and no folder of somebody else is touched."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from launcher.trainers.ultralytics import data as yolo_data
from tests.helpers.places import ROOT

SCRIPT = ROOT / "examples" / "digits" / "make_digits.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_digits", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make_digits = _load()


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 training pages and 5 for validation, made once."""
    folder: Path = tmp_path_factory.mktemp("made") / "digits"
    assert make_digits.main([str(folder), "--pages", "20", "--size", "192"]) == 0
    return folder


def test_the_dataset_passes_autofits_own_check(digits: Path) -> None:
    facts, faults = yolo_data.inspect(str(digits / "data.yaml"), "detect")
    assert faults == []
    assert facts is not None
    assert (len(facts.train), len(facts.val), facts.notes) == (20, 5, ())


def test_a_folder_of_someone_else_is_never_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    assert make_digits.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == (f"make_digits: {tmp_path} holds something that was not made here; name another place\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert make_digits.main([str(tmp_path / "link")]) == 1
    assert capsys.readouterr().err.endswith("link is not a folder; name another place\n")
