"""examples/notebook: each cell runs as a reader runs it, in a kernel of its own."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

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
    assert "--batch-size 128" in said["command"] and "80 bytes, in which no trainer starts" in said["bad"]
    streams = "".join(one.text for cell in book.cells if cell.cell_type == "code" for one in cell.outputs if "text" in one)
    assert not set(re.findall(r"\x1b\[[?0-9;]*([A-Za-z])", streams)) - {"m"}, "a line that is drawn anew"
    assert os.sep.join(("runs", "autofit")) in said["report"] and len(list(place.glob("runs/autofit/*/report.html"))) >= 1


def _said(cell: Any) -> str:
    """What a cell shows: its value, else what it prints; what launches say on the way goes to standard error."""
    shown = [one.data.get("text/html", one.data.get("text/plain", "")) for one in cell.outputs if "data" in one]
    return str(shown[-1] if shown else "".join(one.text for one in cell.outputs if one.get("name") == "stdout")).strip()
