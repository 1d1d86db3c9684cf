"""Starts the full run as the trainer's own process, with the environment of its trial."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

from autofit_launcher.adapter.commands import Command, under_budget
from autofit_launcher.adapter.protocol import FIRST, RunStart
from autofit_launcher.history.records import MoveRecord
from autofit_launcher.history.run_folder import AttemptFiles
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.machine import process
from autofit_launcher.machine.allocator import allocator_environment
from autofit_launcher.machine.process import Child, Shows
from autofit_launcher.shared.orders import HELD, SAVES, STACKS
from autofit_launcher.trial.job import Job


def native_command(job: Job, rung: Rung) -> Command:
    """The native command of the full run, which doesn't need autofit. Writes its files, and the command itself as command.sh."""
    return _written(job, rung, FIRST, job.folder.command)


def command_of_attempt(job: Job, move: MoveRecord, rung: Rung, *, attempt: int) -> Command:
    """The command that resumes a run. Writes ``command.sh`` (the whole run at that rung) and ``native/attempt-N.sh`` (this attempt)."""
    native_command(job, rung)
    origin = f"on from {move.checkpoint}" if move.checkpoint is not None else "from the beginning"
    begin, script = RunStart(checkpoint=move.checkpoint, attempt=attempt, workers=move.workers), job.folder.attempt(attempt).command
    return _written(job, rung, begin, script, f"Attempt {attempt}: {origin}.")


def _written(job: Job, rung: Rung, begin: RunStart, script: Path, more: str = "") -> Command:
    """The command, after writing its files and itself, as ``script``."""
    folder = job.folder
    command = job.adapter.command(rung, job.budget, folder=folder.path, start=begin)
    on_card = allocator_environment(job.budget) if job.budget.kind == "cuda" else {}
    ranks = command.ranks or (1 if job.adapter.starts_ranks else len(job.budget.each))
    command = replace(command, env={**on_card, **command.env}, ranks=ranks)
    for path, text in command.files.items():
        folder.replace(path, text)
    folder.replace(script, _as_file(command, rung, more))
    script.chmod(0o755)
    return command


def _as_file(command: Command, rung: Rung, more: str = "") -> str:
    """The command as a shell script that works from any folder and without the environment's programs on PATH."""
    first, *rest = command.words
    found = replace(command, argv=(process.program(first), *rest), ranks=1)
    words = [
        "#!/bin/sh",
        f"# What autofit launches at rung {rung.index}; it needs the trainer, not autofit.",
        *([f"# {' '.join(more.splitlines())}"] if more else ()),
        f"cd {shlex.quote(os.getcwd())} || exit",
        found.shell(),
    ]
    return "\n".join(words) + "\n"


def start(job: Job, command: Command, files: AttemptFiles, *, show: tuple[Shows, Shows]) -> Child:
    """Starts the full run. Its output goes, unchanged, to ``show`` and to the two logs of ``files``.

    On a card the run is always held to its budget, and so is one on a CPU whose budget is emulated: one that grows would spill, or use more
    than the smaller card that was asked for. The command that is shown leaves this out.
    """
    budget = job.budget
    saves = "inside.whole_saves" if job.recipe.recover.whole_saves else ""
    env = {**allocator_environment(budget), **command.env, **command.told, SAVES: saves}
    if budget.kind == "cuda" or budget.emulated:
        env |= under_budget(command, budget, settings=job.folder.path / "native" / "budget.json").env
    first, *rest = command.words
    argv = (process.program(first), *rest)
    env |= {HELD: str(files.processes), STACKS: str(files.processes)}
    return process.start(argv, env=env, stdout=files.stdout, stderr=files.stderr, show=show)
