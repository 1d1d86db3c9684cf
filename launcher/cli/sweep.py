"""A multirun through another launcher of Hydra's, such as ``hydra/launcher=submitit_slurm``, whose exit status is what came of the runs.

Each launch gets its folder here, after all checks that need no card. Its job says ``autofit resume FOLDER``: a job that the launcher starts
again goes on with the run. What Hydra's launcher returns isn't believed; the folders tell.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli import submit
from launcher.cli.call import Answer
from launcher.cli.terminal import Terminal
from launcher.errors import BadInput, ExitCode
from launcher.shared.activity import doing

if TYPE_CHECKING:
    from launcher.config.recipe import Draft
    from launcher.history.runs import Run

LOOK_S = 2.0
"""Seconds between two looks at jobs that are queued again."""


def through(words: Sequence[str], drafts: Sequence[Draft], terminal: Terminal, *, fit_only: bool) -> Answer:
    """Hands all of them to the launcher that ``words`` choose, and waits for them. Raises BadInput, and nothing is left, where one can't
    work."""
    from launcher.config import hydra_launcher
    from launcher.engine import prepare
    from launcher.machine import process

    folders: list[Path] = []
    try:
        for draft in drafts:
            prepare.refuse_a_rung(draft)
            folders.append(prepare.enter(draft).path)
            submit.entered(folders[-1], fit_only=fit_only)
    except BaseException:
        _remove(folders)
        raise
    terminal.say(f"through {words[0]}:", *(f"  {folder}" for folder in folders))
    with suppress(ImportError):  # submitit's and joblib's own; a launcher that doesn't pickle does without
        import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[process.__name__])
    commands = [process.python_module("launcher", "resume", str(folder), submit.HERE) for folder in folders]
    os.environ.setdefault("SUBMITIT_LOG_LEVEL", "ERROR")  # it warns at each look where there is no accounting, which isn't needed
    place = folders[0].parent / f".hydra-{datetime.now():%Y%m%d-%H%M%S-%f}"
    try:
        with terminal.apart():  # submitit says on standard output how it looks for its jobs
            hydra_launcher.run(words, commands, task=process.in_a_sweep, place=str(place))
    except BadInput as refused:
        if not any((folder / "events.jsonl").exists() for folder in folders):
            _remove([*folders, place])
            raise
        terminal.faults(refused.faults)  # a job of it was lost; what became of the others stands in their folders
    return _told(folders, terminal, place)


def _remove(folders: Sequence[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _told(folders: Sequence[Path], terminal: Terminal, place: Path) -> Answer:
    """How each has ended, once none is queued again. The worst counts."""
    from launcher.cli import runs_view

    runs = [_over(folder) for folder in folders]
    for run in runs:
        runs_view.ended(terminal.console, run)
        if run.record is None:
            terminal.complain(f"its job never began with it; its words: {place}")
    status = max(map(submit.status_of, runs), default=ExitCode.DONE)
    return Answer(status=status, record={"status": "swept", "runs": [run.as_record() for run in runs]})


@doing("waiting for jobs that are queued again")
def _over(folder: Path) -> Run:
    from launcher.history.runs import NOT_OVER, run_in

    while True:
        run = run_in(folder)
        job = run.owner.job
        if not job or run.record is None or run.record.status not in NOT_OVER:
            return run
        if (seen := submit.job_seen(job)) is None or not seen.is_there:
            return run_in(folder)
        time.sleep(LOOK_S)
