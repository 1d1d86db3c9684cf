"""The verb ``logs``: what a run's trainer, or a trial's, has said itself; with ``-f`` also what it still says, until the run ends."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.cli.say import Shown
from autofit_launcher.common import files
from autofit_launcher.common.words import page
from autofit_launcher.errors import ExitCode, refusal
from autofit_launcher.history.runs import Run, find, newest, run_in

LOOK_S = 0.5
_PIECE_BYTES = 1 << 20


class Said(NamedTuple):
    """Files of the output of one process of a launch: a trial's, or an attempt's at the full run."""

    name: str
    stdout: Path
    stderr: Path


def logs(call: Call) -> Answer:
    name, number = call.word("run"), call.flags.get("--trial", "")
    path = find(name) if name else newest()
    out, shown, follow = call.terminal.streams()[0], Counter[Path](), not call.flags.keys().isdisjoint(("-f", "--follow"))
    while True:
        run = run_in(path)  # first: what is read after a run's end is all that it has said
        if (said := _trial(run, number) if number else latest(run)) is not None:
            _show(out, said, shown)
        if not (follow and run.at_work and call.terminal.is_heard) or (number and int(number) < run.tried):
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
        return Said(f"run (attempt {run.attempt})" if run.attempt > 1 else "run", one.stdout, one.stderr)
    return next(reversed(_of_rungs(run)), None)


def _trial(run: Run, number: str) -> Said:
    """Raises BadInput where the launch has made no such trial."""
    made = _of_rungs(run)
    if not number.isdecimal() or not 0 < int(number) <= len(made):
        cure = f"It has made {len(made)}; the launch has told each by its number."
        raise refusal(f"there is no trial {number}", cure, where=str(run.folder.path))
    return made[int(number) - 1]


def _of_rungs(run: Run) -> list[Said]:
    """The trials that were made, in their order."""
    made = [*(one for one in run.known.trials if not one.kept), *([run.known.trying] if run.known.trying is not None else ())]
    places = [(one.rung_index, run.folder.trials / f"{one.rung_index:03d}") for one in made]
    return [
        Said(f"trial {number} (rung {index})", place / "stdout.log", place / "stderr.log")
        for number, (index, place) in enumerate(places, start=1)
    ]


def _show(out: Shown, said: Said, shown: Counter[Path]) -> None:
    """Shows what is new of both streams one after another, each under its name."""
    for name, path in (("stdout", said.stdout), ("stderr", said.stderr)):
        for piece in _pieces(path, shown, raw=not out.isatty()) if path.is_file() else ():
            head = "" if shown[path] else f"{chr(10) if +shown else ''}==> {said.name}: {name} <==\n"
            out.write(head.encode() + piece)
    out.flush()


def _pieces(path: Path, shown: Counter[Path], *, raw: bool) -> Iterator[bytes]:
    """Yields what is new of a file, and counts it as shown once it is."""
    with files.opened(path) as file:
        while piece := os.pread(file.fileno(), _PIECE_BYTES, shown[path]):
            fit, read = (piece, len(piece)) if raw else page(piece)
            if not read:
                break
            yield fit
            shown[path] += read
