"""The chosen rung -> the full run, started as the trainer's own process, with the environment it had in its trial."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import BinaryIO

from launcher import process
from launcher.allocator import allocator_environment
from launcher.devices import Budget
from launcher.ladder import Rung
from launcher.process import Child
from launcher.record import RunFolder
from launcher.schema import Recipe
from launcher.trainers.base import Adapter, Command


def native_command(recipe: Recipe, adapter: Adapter, rung: Rung, budget: Budget, folder: RunFolder) -> Command:
    """The full run in the trainer's own words, needing nothing of autofit; its files are written, the line saved as command.sh."""
    command = adapter.full_run(recipe, rung, budget, folder=folder.path)
    env = {**_worth_showing(allocator_environment(budget, rung)), **command.env}
    command = replace(command, env=env)
    for path, text in command.files.items():
        folder.replace(path, text)
    header = f"#!/bin/sh\n# What autofit launches at rung {rung.index}; it needs the trainer, not autofit."
    folder.replace(folder.command, f"{header}\n{command.shell()}\n")  # fmt: skip
    return command


def start(command: Command, adapter: Adapter, rung: Rung, budget: Budget, folder: RunFolder, *, show: tuple[BinaryIO, BinaryIO]) -> Child:
    """Starts the full run; its output goes to ``show`` untouched and to two logs.

    Where the budget is emulated (a smaller card, or the CPU's), the very same program runs inside
    ``launcher.worker.budgeted``, which takes the budget first: otherwise nothing would hold the run to it.
    """
    argv = command.argv
    if budget.emulated and command.foreign:
        limits = ("--device", budget.kind, "--device-index", str(budget.index), "--bytes", str(budget.budget_bytes))
        argv = process.python_module("launcher.worker.budgeted", *limits, "--at-first-model", str(folder.native / "budget.json"), *argv)
    elif budget.emulated:
        imports = ",".join(adapter.runtime(command))
        limits = ("--device", budget.kind, "--bytes", str(budget.budget_bytes), "--imports", imports)
        argv = process.python_module("launcher.worker.budgeted", *limits, *_program(argv))
    env: Mapping[str, str] = {**allocator_environment(budget, rung), **command.env}
    return process.start(argv, env=env, stdout=folder.run_stdout, stderr=folder.run_stderr, show=show)


def _program(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The program without the interpreter that would start it."""
    return argv[1:] if argv[0] in (sys.executable, "python", "python3") else argv


def _worth_showing(env: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if not key.startswith("MALLOC_")}
