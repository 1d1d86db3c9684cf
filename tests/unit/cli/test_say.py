"""Words on a terminal stay whole; standard output and error whose reader goes, or was never there, fail nothing and stop nothing."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from autofit_launcher.cli import say
from tests.helpers import screens
from tests.helpers.places import ROOT


def printed(width: int, *, terminal: bool, draw: Callable[[Console], None]) -> list[str]:
    console = Console(file=(out := io.StringIO()), width=width, force_terminal=terminal, color_system=None, highlight=False)
    draw(console)
    return [row.rstrip() for row in out.getvalue().splitlines() if row.strip()]


def test_a_long_line_is_broken_between_words_on_a_terminal_and_nowhere_else() -> None:
    line = "see /a/path/that/is/longer/than/the/screen/is.yaml for [more] of it"
    rows = printed(20, terminal=True, draw=lambda console: say.say(console, line))
    assert rows == ["see", "/a/path/that/is/longer/than/the/screen/is.yaml", "for [more] of it"]
    assert printed(20, terminal=False, draw=lambda console: say.say(console, line)) == [line]


def test_a_table_too_wide_for_the_screen_is_a_paragraph_a_row_and_no_cell_is_cut() -> None:
    rows: list[dict[str, str | Text]] = [{"rung": str(number), "model": "MediaTek-Research/Breeze-ASR-25"} for number in range(2)]
    for width, terminal, height in ((20, True, 4), (80, True, 4), (20, False, 4)):
        seen = printed(width, terminal=terminal, draw=lambda console: say.table(console, rows, left=("model",)))
        assert len(seen) == height and sum("MediaTek-Research/Breeze-ASR-25" in row for row in seen) == 2, seen
        assert (seen[0] == "rung 0   model") is (width == 20 and terminal)


ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
AUTOFIT = (sys.executable, "-m", "autofit_launcher")


@pytest.mark.parametrize("words", [("ladder", "recipe=yolov8x_a100", "--json"), ("train", "recipe=yolov8x_a100", "--cfg", "job")])
def test_a_reader_that_goes_does_not_fail_what_was_done(tmp_path: Path, words: tuple[str, ...]) -> None:
    child = subprocess.Popen([*AUTOFIT, *words], cwd=tmp_path, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    said = child.stderr.read().decode()
    assert child.wait() == 0 and "Error" not in said and "BrokenPipe" not in said, said


def test_a_standard_output_on_a_full_disk_is_told(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*AUTOFIT, "--help"], cwd=tmp_path, env=ENV, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "autofit: standard output can't be written: No space left on device\n"


def test_a_name_that_the_terminal_cannot_show_stops_nothing(tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "été.yaml").write_text("summary: déjà vu\n", encoding="utf-8")
    env = {**ENV, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*AUTOFIT, "recipes"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "\\xe9t\\xe9" in done.stdout


SPEAKS = """
import pathlib, sys
from autofit_launcher.machine import process
from autofit_launcher.cli.say import Streams, Terminal
streams, terminal = Streams(), Terminal(as_json=False)
here = pathlib.Path(sys.argv[1])
says = "import sys; " + sys.argv[2]
def run():
    child = process.start((sys.executable, "-c", says), env={}, stdout=here / "out", stderr=here / "err", show=terminal.streams())
    process.wait(child)
run(); terminal.say("ours"); run(); terminal.complain("ours, too"); run(); terminal.say("drawn")
streams.close()
"""


@pytest.mark.parametrize(("says", "expected"), [
    ("print('theirs', end='')", ["theirs", "ours", "theirs", "ours, too", "theirs", "drawn"]),
    ("print('\\r 50%', end='')", [" 50%", "ours", " 50%", "ours, too", " 50%", "drawn"]),
])  # fmt: skip
def test_our_words_begin_on_a_line_of_their_own_and_no_line_is_left_empty(tmp_path: Path, says: str, expected: list[str]) -> None:
    argv = (sys.executable, "-c", SPEAKS, str(tmp_path), says)
    assert screens.shown(argv, cwd=tmp_path).rows == expected, "on a terminal"
    done = subprocess.run(argv, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert [line.lstrip("\r") for line in done.stdout.decode().rstrip("\n").split("\n")] == expected, "in one file"


def test_a_trainer_sees_a_wide_terminal_for_its_bars_and_the_persons_width_for_its_tables(tmp_path: Path) -> None:
    says = "import os, shutil; print(os.get_terminal_size().columns, shutil.get_terminal_size().columns)"
    for columns, expected in ((80, "200 80"), (200, "200 200"), (240, "240 240")):
        assert screens.shown((sys.executable, "-c", SPEAKS, str(tmp_path), says), columns=columns, cwd=tmp_path).rows[0] == expected


SILENT = """
import sys, time
from autofit_launcher.cli import main as cli
from autofit_launcher.cli.say import Streams, Terminal
from autofit_launcher.errors import Interrupted
from autofit_launcher.common import activity
streams, terminal = Streams(), Terminal(as_json=False)
activity.SILENT_S = float(sys.argv[1])
def act():
    with activity.doing("reading the data"):
        terminal.say("found")
        time.sleep(float(sys.argv[2]))
        raise Interrupted("SIGTERM")
cli._guarded(act, terminal)
streams.close()
"""


def test_what_takes_a_while_is_told_once_and_what_is_short_is_not(tmp_path: Path) -> None:
    for silent, waits, told in (("0.2", "2", ["reading the data ..."]), ("3600", "0", [])):
        argv = [sys.executable, "-c", SILENT, silent, waits]
        done = subprocess.run(argv, cwd=tmp_path, env=ENV, capture_output=True, text=True, check=False)
        assert done.stdout == "found\n", "what is asked for may go to a file"
        first, last = done.stderr.splitlines()[:-1], done.stderr.splitlines()[-1]
        assert first == told and last.startswith("autofit: interrupted by SIGTERM")
        assert screens.shown(argv, cwd=tmp_path).rows == ["found", *told, last]
