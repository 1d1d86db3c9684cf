"""The edit that a person would make by hand: where the number stands, or at the call where that isn't clear."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from launcher.adapter.source_edits import Edits


def edited(source: str, *changes: tuple[str, int | None, int]) -> tuple[str, str]:
    """(diff, the file after ``patch`` has applied it)"""
    file = Path("train.py").absolute()
    file.write_text(source)
    call = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and ast.unparse(node.func) == "train")
    edits = Edits()
    for name, given, wanted in changes:
        edits.keyword(file, call, name, (given, wanted))
    assert file.read_text() == source, "nothing is edited by us"
    diff = edits.diff()
    subprocess.run(["patch", "-p1", "-s"], input=diff, text=True, check=True)
    return diff, file.read_text()


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("train(batch=64)\n", "train(batch=16)\n"),
        ("C = {'b': 64, 'w': 64}  # größer\ntrain(batch=C['b'])\n", "C = {'b': 16, 'w': 64}  # größer\ntrain(batch=C['b'])\n"),
        ("config = {'batch': 64}\ntrain(**config)\n", "config = {'batch': 16}\ntrain(**config)\n"),
        ("train(**load())\n", "train(**{**load(), 'batch': 16})\n"),
        ("class A:\n    b: int = 64\ntrain(batch=A().b)\n", "class A:\n    b: int = 16\ntrain(batch=A().b)\n"),
        ("b = 64\ntrain(batch=b, val=b)\n", "b = 64\ntrain(batch=16, val=b)\n"),
        ("b = 32 * n\ntrain(batch=b)\n", "b = 32 * n\ntrain(batch=16)\n"),
        ("train(\n    data=1,\n    lr=2,\n)\n", "train(\n    data=1,\n    lr=2,\n    batch=16,\n)\n"),
        ("train()\n", "train(batch=16)\n"),
    ],
)  # fmt: skip
def test_the_diff_changes_the_number_where_it_stands(source: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert edited(source, ("batch", 64, 16))[1] == after


def test_two_numbers_are_one_diff_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    diff, after = edited("C = dict(batch=64)\ntrain(batch=C['batch'], size=640)\n", ("batch", 64, 16), ("size", 640, 320))
    assert after == "C = dict(batch=16)\ntrain(batch=C['batch'], size=320)\n" and diff.count("--- a/train.py") == 1
