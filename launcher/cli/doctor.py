"""The verb doctor: what of this machine and environment would stop a launch, and what to do about it. Launches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.call import Answer, Call
from launcher.errors import ExitCode

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from launcher.machine.checkup import Check

DISTRIBUTION = "autofit-launcher"
EXTRAS = ("ultralytics", "transformers", "lightning", "lora")
"""Of pyproject.toml: what a person's trainers may be made of."""
_WIDTH = 13


def doctor(call: Call) -> Answer:
    """One line for each thing; exit status 1 where one would stop a launch."""
    from launcher.history import runs
    from launcher.machine import checkup

    lines = [*checkup.look(os.environ, folder=Path.cwd() / runs.ROOT), *trainers()]
    for line in lines:
        call.terminal.labelled(line.subject, _words(line), width=_WIDTH)
    stops = sum(line.stops for line in lines)
    cures = sum(bool(line.cure) for line in lines) - stops
    look = f"things to look at: {cures}" if cures else "nothing to do"
    call.terminal.say("", f"Things that would stop a launch: {stops}; {look}." if stops else f"Nothing would stop a launch; {look}.")
    return Answer(status=ExitCode.BAD_INPUT if stops else ExitCode.DONE, record={"lines": list(map(asdict, lines)), "stops": stops})


def trainers() -> Iterator[Check]:
    """Installed packages of the trainers, against the versions that autofit relies upon."""
    from launcher.machine import install
    from launcher.machine.checkup import Check

    for requirement in relied_upon(metadata.requires(DISTRIBUTION) or ()):
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield Check(subject="trainers", found=f"{requirement.name} is not installed ({install.command(str(requirement))})")
            continue
        found, needed = f"{requirement.name} {version}", str(requirement.specifier)
        if requirement.specifier.contains(version, prereleases=True):
            if requirement.name != "torch":  # which has a line of its own
                yield Check(subject="trainers", found=found)
        else:
            cure = f"{install.command(str(requirement))}; others may work, and each trial shows whether it does."
            yield Check(subject="trainers", found=found, needed=needed, cure=cure)


def relied_upon(required: Sequence[str]) -> list[Requirement]:
    """Of a distribution's requirements those of ``EXTRAS``, each package once, without its condition."""
    from packaging.requirements import Requirement

    asked = [one for one in map(Requirement, required) if one.marker is not None]
    wanted = [one for extra in EXTRAS for one in asked if one.marker is not None and one.marker.evaluate({"extra": extra})]
    return list({one.name: Requirement(f"{one.name}{one.specifier}") for one in wanted}.values())


def _words(line: Check) -> str:
    said = [line.found, f"needed: {line.needed}" if line.needed else "", f"To do: {line.cure}" if line.cure else ""]
    return ("STOPS: " if line.stops else "") + ". ".join(part.removesuffix(".") for part in said if part)
