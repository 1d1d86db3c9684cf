"""The chosen rung -> the full run, started as the trainer's own process, with the environment it had in its trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
    header = f"#!/bin/sh\n# What autofit launches at rung {rung.index}; it needs the trainer, not autofit."
    folder.replace(folder.command, f"{header}\n{command.shell()}\n")  # fmt: skip
    return command


def start(job: Job, rung: Rung, command: Command, *, show: tuple[BinaryIO, BinaryIO]) -> Child:
    """Starts the full run; its output goes to ``show`` untouched and to two logs.

    Where the budget is emulated (a smaller card, or the CPU's), the adapter's ``held`` takes the budget first: otherwise
    nothing would hold the run to it.
    """
    if job.budget.emulated:
        command = job.adapter.held(command, job.budget, folder=job.folder.path)
    env = {**allocator_environment(job.budget, rung), **command.env, HELD: str(job.folder.held)}
    return process.start(command.argv, env=env, stdout=job.folder.run_stdout, stderr=job.folder.run_stderr, show=show)


def _worth_showing(env: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if not key.startswith("MALLOC_")}
