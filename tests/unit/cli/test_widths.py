"""Progress is known, and a bar is one row, on a terminal of any width and without one: for all trainers, by the bars that they draw."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.adapter.progress import TRAIN
from tests.helpers import screens
from tests.helpers.progress_of import of_trainer, recipe

WIDTHS = (40, 80, 120)
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


# ----------------------------------------------------------------------------------------------------------------------
# Whole launches


ROOM = "device.memory=3GiB"
STEPS = "trainer.args.set={--max_steps:8,--warmup_steps:2,--eval_steps:4,--save_steps:4,--logging_steps:2}"
LAUNCHES = {
    "ultralytics": ("recipe=yolo_demo", ROOM, "ask.image_size=96", "trainer.args.epochs=1", "trainer.args.fraction=0.2"),
    "speech": ("recipe=whisper_demo", ROOM, STEPS),
    "script": ("recipe=separator_demo", ROOM, r"trainer.args.set={config\:training.epochs:2,config\:training.samples_per_epoch:48}"),
}


@pytest.fixture(scope="module", params=LAUNCHES)
def trainer(request: pytest.FixtureRequest) -> Iterator[str]:
    yield str(request.param)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, trainer: str) -> Path:
    return tmp_path_factory.mktemp(trainer)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [*WIDTHS, None])
def test_the_progress_of_a_whole_run_is_known(place: Path, trainer: str, columns: int | None) -> None:
    """One after another in a folder: the first makes the trials, the others go by its fit."""
    env = {f"XDG_{name}_HOME": str(place / name) for name in ("STATE", "CACHE")}
    if columns is None:
        argv = (sys.executable, "-m", "launcher", "train", *LAUNCHES[trainer])
        status = subprocess.run(argv, cwd=place, env={**screens.plain_environment(), **env}, capture_output=True, check=False).returncode
    else:
        status = screens.autofit("train", *LAUNCHES[trainer], columns=columns, cwd=place, env=env, timeout_s=550).status
    assert status == 0
    run = max((place / "runs" / "autofit").iterdir(), key=lambda path: path.stat().st_mtime)
    lines = [json.loads(line) for line in (run / "series.jsonl").read_text(encoding="utf-8").splitlines()]
    bar = trainer != "script" or columns is not None  # examples/separator draws one on a terminal only; its epochs it always tells
    assert all(any(line.get(name) for line in lines) for name in ("epoch", "loss", *(["step"] if bar else [])))
    assert lines[-1]["done"] == 1.0
