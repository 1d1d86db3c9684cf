"""The verb ``logs``: what a run's trainer, or a trial's, has said itself; with ``-f`` also what it still says, until the run ends."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.cli.say import Shown
from autofit_launcher.common import files
from autofit_launcher.common.words import page
from autofit_launcher.errors import ExitCode, refusal
from autofit_launcher.history.runs import Reader, Run, find, newest

LOOK_S = 0.5
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """Files of the output of one process of a launch: a trial's, or an attempt's at the full run."""

    name: str
    stdout: Path
    stderr: Path


def logs(call: Call) -> Answer:
    name, number = call.word("run"), call.flags.get("--trial")
    if number is not None and not number.isdecimal():
        raise refusal(f"{number!r} is no number of a trial", "Give its number, as the launch has told it: --trial 1.")
    trial = None if number is None else int(number)
    reader = Reader(find(name) if name else newest())
    pages, follow = _Pages(call.terminal.streams()[0]), not call.flags.keys().isdisjoint(("-f", "--follow"))
    while True:
        run = reader.now()  # first: what is read after a run's end is all that it has said
        if (said := latest(run) if trial is None else _trial(run, trial)) is not None:
            pages.show(said)
        if not follow or not run.at_work or (trial is not None and trial < run.tried) or not call.terminal.is_heard:
            break
        try:
            time.sleep(LOOK_S)
        except KeyboardInterrupt:
            call.terminal.complain("autofit: no longer followed; the run goes on")
            break
    folder = str(run.folder.path)
    if said is None:
        raise refusal("its trainer has said nothing yet", "autofit logs -f waits.", where=folder)
    record = {"run_dir": folder, "of": said.name, "stdout": str(said.stdout), "stderr": str(said.stderr)}
    return Answer(status=ExitCode.DONE, record=record)


def latest(run: Run) -> Said | None:
    """Finds the newest output: that of the full run's newest attempt, before it that of the newest trial; None where there is none."""
    if run.known.attempts:
        one = run.folder.attempt(run.attempt)
        again = f" (attempt {run.attempt})" if run.attempt > 1 else ""
        return Said(name=f"run{again}", stdout=one.stdout, stderr=one.stderr)
    return next(reversed(_of_rungs(run)), None)


def _trial(run: Run, number: int) -> Said:
    """Raises BadInput where the launch has made no such trial."""
    made = _of_rungs(run)
    if not 0 < number <= len(made):
        raise refusal(f"there is no trial {number}", f"It has made {len(made)}.", where=str(run.folder.path))
    return made[number - 1]


def _of_rungs(run: Run) -> list[Said]:
    """The trials that were made, in their order."""
    made = [*(one for one in run.known.trials if not one.kept), *([run.known.trying] if run.known.trying is not None else ())]
    return [
        Said(name=f"trial {number} (rung {one.rung_index})", stdout=place / "stdout.log", stderr=place / "stderr.log")
        for number, one in enumerate(made, start=1)
        for place in [run.folder.trials / f"{one.rung_index:03d}"]
    ]


class _Pages:
    """Shows both streams of what is said one after another, each under its name, and later only what is new of them."""

    def __init__(self, out: Shown) -> None:
        self._out = out
        self._shown = Counter[Path]()
        self._last: Path | None = None

    def show(self, said: Said) -> None:
        for name, path in (("stdout", said.stdout), ("stderr", said.stderr)):
            if path.is_file():
                self._rest(path, f"{said.name}: {name}")
        self._out.flush()

    def _rest(self, path: Path, name: str) -> None:
        with files.opened(path) as file:
            while piece := os.pread(file.fileno(), _PIECE_BYTES, self._shown[path]):
                shown, read = page(piece) if self._out.isatty() else (piece, len(piece))
                if not read:
                    break
                if self._last != path:
                    self._out.write(f"{chr(10) if self._last is not None else ''}==> {name} <==\n".encode())
                    self._last = path
                self._out.write(shown)
                self._shown[path] += read
