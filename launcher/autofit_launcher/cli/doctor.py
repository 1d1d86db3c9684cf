"""The verb doctor: what of this machine and environment would stop a launch, and what to do about it. Launches nothing."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.errors import ExitCode
from autofit_launcher.history import runs
from autofit_launcher.machine import checkup


def doctor(call: Call) -> Answer:
    call.named("word", most=0)
    lines = checkup.checks(os.environ, folder=Path.cwd() / runs.ROOT)
    for line in lines:
        said = [line.found, f"needed: {line.needed}" if line.needed else "", f"To do: {line.cure}" if line.cure else ""]
        words = ". ".join(part.removesuffix(".") for part in said if part)
        call.terminal.say(f"{line.subject:<13}{'STOPS: ' if line.stops else ''}{words}")
    stops = sum(line.stops for line in lines)
    cures = sum(bool(line.cure) for line in lines) - stops
    look = f"things to look at: {cures}" if cures else "nothing to do"
    call.terminal.say("", f"Things that would stop a launch: {stops}; {look}." if stops else f"Nothing would stop a launch; {look}.")
    return Answer(status=ExitCode.BAD_INPUT if stops else ExitCode.DONE, record={"lines": list(map(asdict, lines)), "stops": stops})
