"""Starts a verb's call in a session of its own, which goes on when this terminal is closed (``--detach``)."""

from __future__ import annotations

import time
from datetime import datetime

from autofit_launcher import paths
from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.common.activity import doing
from autofit_launcher.errors import ExitCode
from autofit_launcher.machine import process

BEGUN_S = 30.0
"""Seconds to wait for the new process's run folder, so that faults of the recipe are shown here and not in a log."""
LOOK_S = 0.1


def detached(call: Call) -> Answer:
    """Starts the call and waits until it has a run folder, has ended, or takes too long."""
    log = paths.state_folder() / f"{call.verb}-{datetime.now():%Y%m%d-%H%M%S-%f}.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    launched = log.with_suffix(".launched")
    flags = [f"{name}={value}" if value else name for name, value in call.flags.items() if name != "--detach"]
    command = ("--", *call.command) if call.command else ()
    argv = process.python_module("autofit_launcher", call.verb, *flags, *call.words, *command)
    child = process.detach(argv, env={paths.LAUNCHED: str(launched)}, log=log)
    folder, returncode, until = None, None, time.monotonic() + BEGUN_S
    with doing("waiting for its run folder"):
        while folder is None and returncode is None and time.monotonic() < until:
            time.sleep(LOOK_S)
            returncode = child.poll()  # first: what it has told before its end is there then
            folder = paths.launched(launched)
    if folder is None and returncode is not None:
        call.terminal.say(log.read_text(encoding="utf-8", errors="replace").rstrip())
        status = ExitCode(returncode) if returncode in set(ExitCode) else ExitCode.BAD_INPUT
        return Answer(status=status, record={"status": "stopped" if returncode else "done", "log": str(log)})
    call.terminal.say(f"launched: process {child.pid}, which goes on when this terminal is closed")
    if folder is None:
        call.terminal.say("it is preparing, or waits for its turn; `autofit runs` lists it once its run folder is there")
    name = folder or "RUN"
    call.terminal.say(f"  {paths.typed('watch', name)}", f"  {paths.typed('stop', name)}", f"its words: {log}")
    return Answer(status=ExitCode.DONE, record={"status": "detached", "pid": child.pid, "run_dir": folder and str(folder), "log": str(log)})
