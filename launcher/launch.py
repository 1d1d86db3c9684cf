"""The chosen rung -> the full run, started as the trainer's own process, with the environment it had in its trial."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from launcher import process
from launcher.allocator import allocator_environment
from launcher.contract.orders import HELD
from launcher.job import Job
from launcher.ladder import Rung
from launcher.process import Child
from launcher.trainers.base import Command


def native_command(job: Job, rung: Rung) -> Command:
    """The full run in the trainer's own words, needing nothing of autofit; its files are written, the line saved as command.sh."""
    folder = job.folder
    command = job.adapter.full_run(rung, job.budget, folder=folder.path)
    env = {**_worth_showing(allocator_environment(job.budget, rung)), **command.env}
    command = replace(command, env=env)
    for path, text in command.files.items():
        folder.replace(path, text)
    folder.replace(folder.command, _as_file(command, rung))
    folder.command.chmod(0o755)
    return command


def _as_file(command: Command, rung: Rung) -> str:
    """The command as a shell script that works from any folder, and without the environment's programs on PATH."""
    found = replace(command, argv=(program(command.argv[0]), *command.argv[1:]))
    words = [
        "#!/bin/sh",
        f"# What autofit launches at rung {rung.index}; it needs the trainer, not autofit.",
        f"cd {shlex.quote(os.getcwd())} || exit",
        found.shell(),
    ]
    return "\n".join(words) + "\n"


def program(name: str) -> str:
    """Where a program lies: on PATH, else beside this interpreter (an environment that was not activated); the name itself elsewhere."""
    beside = Path(sys.executable).parent / name
    return shutil.which(name) or (str(beside) if os.sep not in name and beside.is_file() else name)


def start(job: Job, rung: Rung, command: Command, *, show: tuple[BinaryIO, BinaryIO]) -> Child:
    """Starts the full run; its output goes to ``show`` untouched and to two logs.

    Where the budget is emulated (a smaller card, or the CPU's), the adapter's ``held`` takes the budget first: otherwise
    nothing would hold the run to it.
    """
    if job.budget.emulated:
        command = job.adapter.held(command, job.budget, folder=job.folder.path)
    env = {**allocator_environment(job.budget, rung), **command.env, HELD: str(job.folder.held)}
    argv = (program(command.argv[0]), *command.argv[1:])
    return process.start(argv, env=env, stdout=job.folder.run_stdout, stderr=job.folder.run_stderr, show=show)


def _worth_showing(env: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if not key.startswith("MALLOC_")}
