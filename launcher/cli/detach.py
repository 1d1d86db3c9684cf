"""Starts a verb's call in a session of its own, which goes on when this terminal is closed (``--detach``)."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from launcher.cli.call import Answer, Call
from launcher.errors import ExitCode
from launcher.shared.activity import doing

if TYPE_CHECKING:
    from pathlib import Path

    from launcher.machine.process import Detached

DETACH = "--detach"
BEGUN_S = 30.0
"""Seconds to wait for the new process's run folder, so that faults of the recipe are shown here and not in a log."""
LOOK_S = 0.1


def wants_detach(call: Call) -> bool:
    """A launch that is handed to SLURM goes on without this terminal anyway."""
    return DETACH in call.flags and "launch=slurm" not in call.words


def detached(call: Call) -> Answer:
    """Starts the call and waits until it has a run folder, has ended, or takes too long."""
    from launcher import paths
    from launcher.machine import process

    log = paths.state_folder() / f"{call.verb}-{datetime.now():%Y%m%d-%H%M%S-%f}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    launched = log.with_suffix(".launched")
    flags = sorted(call.flags - {DETACH})
    command = ("--", *call.command) if call.command else ()
    argv = process.python_module("launcher", call.verb, *flags, *call.words, *command)
    child = process.detach(argv, env={paths.LAUNCHED: str(launched)}, log=log)
    with doing("waiting for its run folder"):
        folder = _begun(child, launched)
    if folder is None and (returncode := child.poll()) is not None:
        call.terminal.say(log.read_text(encoding="utf-8", errors="replace").rstrip())
        return Answer(status=_status(returncode), record={"status": "stopped" if returncode else "done", "log": str(log)})
    name = str(folder) if folder is not None else "RUN"
    missing = (
        () if folder is not None else ("it is preparing, or waits for its turn; `autofit runs` lists it once its run folder is there",)
    )
    call.terminal.say(
        f"launched: process {child.pid}, which goes on when this terminal is closed",
        *missing,
        f"  autofit watch {name}",
        f"  autofit stop {name}",
        f"its words: {log}",
    )
    return Answer(status=ExitCode.DONE, record={"status": "detached", "pid": child.pid, "run_dir": folder and str(folder), "log": str(log)})


def _begun(child: Detached, launched: Path) -> Path | None:
    """The run folder that the child has made; None if it ended without one, or takes too long."""
    from launcher import paths

    until = time.monotonic() + BEGUN_S
    while time.monotonic() < until:
        ended = child.poll() is not None  # first: what it has told before its end is there then
        folder = paths.launched(launched)
        if folder is not None or ended:
            return folder
        time.sleep(LOOK_S)
    return None


def _status(returncode: int) -> ExitCode:
    return ExitCode(returncode) if returncode in set(ExitCode) else ExitCode.BAD_INPUT
