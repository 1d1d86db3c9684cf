"""The verb ``logs``: what a run's trainer, or a trial's, has said itself; with ``-f`` also what it still says, until the run ends."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from launcher.cli.call import Answer, Call
from launcher.errors import COMMAND_LINE, BadInput, ExitCode, Fault

if TYPE_CHECKING:
    from launcher.cli.terminal import Shown
    from launcher.history.runs import Reader, Run

FOLLOW = ("-f", "--follow")
TRIAL = "--trial"
LOOK_S = 0.5
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What one process of a launch has written: a trial's, or an attempt's at the full run."""

    name: str
    stdout: Path
    stderr: Path


def logs(call: Call) -> Answer:
    """The newest run's, where none is named."""
    from launcher.history.runs import Reader, find, newest

    name, trial = _asked(call)
    reader = Reader(find(name) if name else newest())
    run = reader.now()
    said = _trial(run, trial) if trial is not None else latest(run)
    pages = _Pages(call.terminal.streams()[0])
    if said is not None:
        pages.show(said)
    if call.flags.intersection(FOLLOW):
        said = _followed(call, reader, pages, trial) or said
    if said is None:
        raise BadInput([Fault(key="", where=str(run.folder.path), found="its trainer has said nothing yet", cure="autofit logs -f waits.")])
    record = {"run_dir": str(run.folder.path), "of": said.name, "stdout": str(said.stdout), "stderr": str(said.stderr)}
    return Answer(status=ExitCode.DONE, record=record)


def _asked(call: Call) -> tuple[str, int | None]:
    """(the run that is named, or ""; the number of the trial). Raises BadInput for words that are neither."""
    words = [part for word in call.words for part in (word.split("=", 1) if word.startswith(f"{TRIAL}=") else [word]) if part != TRIAL]
    wanted = TRIAL in call.flags or len(words) > len(call.words) or any(word.startswith(f"{TRIAL}=") for word in call.words)
    numbers = [word for word in words if word.isdecimal()] if wanted else []
    names = [word for word in words if word not in numbers[:1]]
    if flag := next((word for word in names if word.startswith("-")), None):
        raise BadInput([_wrong(f"autofit logs doesn't know {flag}", "It takes -f and --trial N; see autofit logs --help.")])
    if wanted and not numbers:
        raise BadInput([_wrong("no trial is named", "Give its number, as the launch has told it: --trial 1.")])
    if len(names) > 1:
        raise BadInput([_wrong(f"autofit logs takes one run, and these are {len(names)}: {' '.join(names)}", "Name one.")])
    return (names[0] if names else ""), (int(numbers[0]) if wanted else None)


def _wrong(found: str, cure: str) -> Fault:
    return Fault(key="", where=COMMAND_LINE, found=found, cure=cure)


def latest(run: Run) -> Said | None:
    """What is being said, or was last: by the full run's newest attempt, before it by the newest trial."""
    if run.known.attempts:
        files = run.folder.attempt(run.attempt)
        again = f" (attempt {run.attempt})" if run.attempt > 1 else ""
        return Said(name=f"run{again}", stdout=files.stdout, stderr=files.stderr)
    return _of_rungs(run)[-1] if _of_rungs(run) else None


def _trial(run: Run, number: int) -> Said:
    """Raises BadInput where the launch has made no such trial."""
    made = _of_rungs(run)
    if not 0 < number <= len(made):
        there = f"It has made {len(made)}: --trial 1{f' to {len(made)}' if len(made) > 1 else ''}." if made else "It has made none."
        relies = not made and run.known.kept.used
        kept = " The fit that it relies on was kept by an earlier launch." if relies else ""
        raise BadInput([Fault(key="", where=str(run.folder.path), found=f"there is no trial {number}", cure=f"{there}{kept}")])
    return made[number - 1]


def _of_rungs(run: Run) -> list[Said]:
    """The trials that were made, in their order."""
    made = [*(one for one in run.known.trials if not one.kept), *([run.known.trying] if run.known.trying is not None else ())]
    return [
        Said(name=f"trial {number} (rung {one.rung_index})", stdout=place / "stdout.log", stderr=place / "stderr.log")
        for number, one in enumerate(made, start=1)
        for place in [run.folder.trials / f"{one.rung_index:03d}"]
    ]


def _followed(call: Call, reader: Reader, pages: _Pages, trial: int | None) -> Said | None:
    """Shows what comes until the run has ended, or the trial that is asked for, or nobody reads it any more."""
    said: Said | None = None
    try:
        while call.terminal.is_heard:
            run = reader.now()  # first: what is read after a run's end is all that it has said
            said = _trial(run, trial) if trial is not None else latest(run)
            if said is not None:
                pages.show(said)
            if not run.at_work or (trial is not None and trial < run.tried):
                break
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        call.terminal.complain("autofit: no longer followed; the run goes on")
    return said


class _Pages:
    """Shows both streams of what is said one after another, each under its name, and later only what is new of them."""

    def __init__(self, out: Shown) -> None:
        self._out = out
        self._shown: dict[Path, int] = {}
        self._last: Path | None = None

    def show(self, said: Said) -> None:
        for stream, path in (("stdout", said.stdout), ("stderr", said.stderr)):
            try:
                with path.open("rb") as file:
                    self._rest(file, path, f"{said.name}: {stream}")
            except FileNotFoundError:
                continue
        self._out.flush()

    def _rest(self, file: BinaryIO, path: Path, name: str) -> None:
        file.seek(self._shown.get(path, 0))
        while piece := file.read(_PIECE_BYTES):
            if self._last != path:
                self._out.write(f"{chr(10) if self._last is not None else ''}==> {name} <==\n".encode())
                self._last = path
            self._out.write(piece)
        self._shown[path] = file.tell()
