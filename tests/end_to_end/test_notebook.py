"""examples/notebook: each cell runs as a reader runs it, in a kernel of its own; the proof for anybody's card on a T4 that isn't there."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.pretended import cards, catalogue
from benchmarks.gpu_check import sent
from tests.helpers.places import ROOT


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    place = tmp_path / "examples" / "notebook"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.read(place / "autofit.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=590, kernel_name="python3", resources={"metadata": {"path": str(place)}}).execute()
    said = {cell["id"]: _said(cell) for cell in book.cells if cell.cell_type == "code"}
    assert said["run"] == "'done'" and said["values"] == "(128, 2, 256)" and said["kept"] == "True"
    assert "out_of_memory" in said["tried"] and "'fits'" in said["tried"]
    assert "--batch-size 128" in said["command"] and "in bytes, and no trainer starts" in said["bad"]
    streams = "".join(one.text for cell in book.cells if cell.cell_type == "code" for one in cell.outputs if "text" in one)
    assert not set(re.findall(r"\x1b\[[?0-9;]*([A-Za-z])", streams)) - {"m"}, "a line that is drawn anew"
    assert os.sep.join(("runs", "autofit")) in said["report"] and len(list(place.glob("runs/autofit/*/report.html"))) >= 1


@pytest.mark.slow
def test_the_proof_in_one_cell_holds_on_a_played_t4_and_its_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(ROOT / "examples" / "notebook" / "prove_on_a_card.ipynb", as_version=4)
    (cell,) = (cell for cell in book.cells if cell.cell_type == "code")
    cell.source = cell.source.replace('AUTOFIT = "../.."', f"AUTOFIT = {str(ROOT)!r}")
    (model,) = catalogue.named(["t4"])
    with cards.played(cards.Cards(model=model, computed="small")) as around:
        for name, value in {**around, "TMPDIR": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        nbclient.NotebookClient(book, timeout=590, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    row = sent.taken(tmp_path / "autofit-proof.json")
    assert row["card"] == "Tesla T4 (pretended)" and row["driver"] and row["versions"]["torch"]
    assert {name: one["holds"] for name, one in row["cases"].items()} == dict.fromkeys(sent.CASES, True), _said(cell)


def _said(cell: Any) -> str:
    """What a cell shows: its value, else what it prints; what launches say on the way goes to standard error."""
    shown = [one.data.get("text/html", one.data.get("text/plain", "")) for one in cell.outputs if "data" in one]
    return str(shown[-1] if shown else "".join(one.text for one in cell.outputs if one.get("name") == "stdout")).strip()
