"""Progress is known, and a bar is one row, on a terminal of any width and without one: for all trainers, by the bars that they draw."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from launcher.adapter.progress import TRAIN
from tests.helpers import screens
from tests.helpers.progress_of import of_trainer, recipe

WIDTHS = (40, 120)
ULTRALYTICS = """
import importlib.util, sys, types
spec = importlib.util.find_spec("ultralytics")
package, utils = types.ModuleType("ultralytics"), types.ModuleType("ultralytics.utils")  # its own bar, without importing all of it
package.__path__ = list(spec.submodule_search_locations)
utils.__path__ = [package.__path__[0] + "/utils"]
utils.VERBOSE, utils.LOGGER = True, types.SimpleNamespace(getEffectiveLevel=lambda: 20)
sys.modules |= {"ultralytics": package, "ultralytics.utils": utils}
from ultralytics.utils.tqdm import TQDM
bar = TQDM(range(1000), total=1000)
for number in bar:
    bar.set_description(("%11s" * 2 + "%11.4g" * 5) % ("1/2", "0G", 6.728, 4.506, 2.301, 145, 1280))
    bar._display(final=True)
    if number == 42:
        break
"""
TQDM = """
from tqdm import tqdm
bar = tqdm(range(1000), desc={desc!r}, mininterval=0)
for number in bar:
    bar.set_postfix(loss="0.512", rate="0.0001")
    if number == 42:
        break
"""
CHILD = """
import pathlib, sys
from launcher.machine import process
from launcher.cli.terminal import Streams, Terminal
streams, here = Streams(), pathlib.Path(sys.argv[1])
argv = (sys.executable, str(here / "draws.py"))
process.wait(process.start(argv, env={}, stdout=here / "out", stderr=here / "err", show=Terminal(as_json=False).streams()))
Terminal(as_json=False).say("ours")
streams.close()
"""


RECIPES = {
    "ultralytics": recipe("ultralytics"),
    "script": recipe("script", command=["python", "train.py"]),
}


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("trainer", ["ultralytics", "script"])
def test_a_trainers_own_bar_is_read_whole_and_seen_on_one_row(tmp_path: Path, trainer: str, columns: int) -> None:
    draws = ULTRALYTICS if trainer == "ultralytics" else TQDM.format(desc="epoch 1/2 of a long name")
    (tmp_path / "draws.py").write_text(draws, encoding="utf-8")
    seen = screens.shown((sys.executable, "-c", CHILD, str(tmp_path)), columns=columns, cwd=tmp_path)
    assert seen.status == 0 and len(seen.rows) == 2 and seen.rows[1] == "ours", seen.text
    assert "/1000" in seen.rows[0] and len(seen.rows[0]) < columns
    said = "".join((tmp_path / name).read_text(encoding="utf-8") for name in ("out", "err"))
    last = of_trainer(RECIPES[trainer], said.replace("\r", "\n").splitlines())[-1]
    assert last.phase == TRAIN and last.steps == 1000 and last.step is not None and last.step >= 42
    assert last.loss == pytest.approx({"ultralytics": 13.535, "script": 0.512}[trainer])
