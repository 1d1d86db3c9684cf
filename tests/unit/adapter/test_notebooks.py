"""A notebook is read as one Python source, cell by cell; what starts other programs is found."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from launcher.adapter import notebooks, python_source


def notebook(*cells: str) -> str:
    held = [{"cell_type": "markdown", "source": ["# a title"]}, *({"cell_type": "code", "source": one.splitlines(True)} for one in cells)]
    return json.dumps({"cells": held, "nbformat": 4})


TEXT = notebook(
    "# !pip install torch\n%matplotlib inline\nbatch = 8",
    "%%bash\npip install torch\n",
    "%%time\nfor a in b:\n    !rm -r out\n    f(a)\nfiles = !ls",
)


def test_cells_are_one_source_with_the_lines_kept() -> None:
    source = notebooks.source(TEXT)
    lines = source.splitlines()
    assert ast.parse(source) and lines[2] == "batch = 8" and lines[9] == "    f(a)", lines
    assert notebooks.cell(TEXT, 3) == "cell 1 line 3" and notebooks.cell(TEXT, 10) == "cell 3 line 4"


def test_lines_that_start_other_programs_are_found_and_comments_are_not() -> None:
    assert list(notebooks.programs(TEXT)) == ["cell 2: %%bash", "cell 3: !rm -r out", "cell 3: files = !ls"]


PRINTS = "for i in a:\n    print('%d of %d'\n          % (i, n))\n    half = n \\\n    % 2"


def test_only_a_statement_that_begins_so_is_ipythons_and_with_it_the_lines_it_goes_on_in() -> None:
    text = notebook(
        PRINTS, 'text = """\n!pip install torch\n%cd\n"""', "!python prepare.py \\\n    --into data", "  b = 8\n  model?\n  c = 1"
    )
    source = notebooks.source(text)
    assert ast.parse(source) and source.startswith(PRINTS) and source.endswith("b = 8\npass\nc = 1"), source
    assert notebooks.cell(text, 12) == "cell 4 line 1"
    assert list(notebooks.programs(text)) == ["cell 3: !python prepare.py \\"]
    assert list(notebooks.programs(notebook("pip install torch"))) == ["cell 1: pip install torch"], "IPython adds the % itself"


def test_a_notebook_that_is_no_python_is_told_with_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(notebook("batch = 8", "a = 1\nkey = <YOUR-KEY>"))
    assert python_source.fault(path) == "cell 2 line 2: invalid syntax"


def test_what_is_no_notebook_has_no_source() -> None:
    assert notebooks.source("not json") == notebooks.source("{}") == notebooks.source('{"cells": [1]}') == ""


def test_a_place_in_a_notebook_is_told_by_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(TEXT)
    assert python_source.place(path, 3) == "n.ipynb cell 1 line 3"
    assert python_source.place(tmp_path / "t.py", 3) == "t.py line 3"
