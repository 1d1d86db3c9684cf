"""What a recipe's ``prepare`` says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from autofit_launcher.cli import main
from tests.helpers.places import ROOT


def test_no_recipe_advises_an_extra() -> None:
    """On PyPI a stranger's project has the name."""
    assert not [path for path in (ROOT / "recipes").rglob("*.yaml") if "autofit[" in path.read_text(encoding="utf-8")]


def recipe(folder: Path, prepare: str) -> None:
    (folder / "recipes").mkdir()
    text = (
        "defaults: [override /device: cpu, _self_]\ndata: made/data.yaml\n"
        f"prepare: {json.dumps([sys.executable, '-c', prepare])}\n"
        "ask: {model: yolo11n.yaml, micro_batch: 4}\ndevice: {memory: 900MiB}\n"
    )
    (folder / "recipes" / "mine.yaml").write_text(text)


def test_what_prepare_says_where_it_makes_no_data_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe(tmp_path, "raise ModuleNotFoundError(\"No module named 'sklearn'\")")
    assert main.run(["fit", "recipe=mine"]) == 1
    err = capsys.readouterr().err
    assert "did not make made/data.yaml" in err and "No module named 'sklearn'" in err and "Run it by hand" in err


@pytest.mark.parametrize(("word", "said"), [("trainer.args.nonsense=1", "trainer.args.nonsense"), ("data=mine.yaml", "data: ")])
def test_prepare_is_not_run_where_something_else_is_wrong_or_the_data_was_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    recipe(tmp_path, "open('prepared', 'w')")
    assert main.run(["fit", "recipe=mine", word]) == 1
    err = capsys.readouterr().err
    assert said in err and "prepare:" not in err.partition("Looked in")[0]
    assert not Path("prepared").exists()
