"""Finds the intact checkpoints of a Trainer's run, and makes the command that resumes from one. A child process loads them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from launcher.adapter import checkpoint_files
from launcher.adapter.commands import Checkpoint, Command
from launcher.adapter.protocol import NOT_FINITE
from launcher.errors import AutofitError
from launcher.machine import host, process

MOST_LOOKED_AT = 4
PAGE = 4096
_INSIDE = "launcher.trainers.transformers.inside.checkpoint"
OF_WORKERS = ("dataloader_prefetch_factor", "dataloader_persistent_workers")
"""Refused by PyTorch where there are no workers."""


def checkpoints(output: Path) -> Sequence[Checkpoint]:
    """Intact checkpoints in an output folder, newest first."""
    looked = _looked_at([path for path, torn in _newest(output).items() if not torn][:MOST_LOOKED_AT])
    return [
        Checkpoint(path=path, done=one["steps"], unit="steps", finished=one["steps"] >= one["max_steps"])
        for path, one in looked.items()
        if one is not None and one["finite"]
    ]


def spoiled(output: Path) -> Mapping[Path, str]:
    """Checkpoints that can't be used, and why."""
    faults = dict(list(_newest(output).items())[:MOST_LOOKED_AT])
    for path, one in _looked_at([path for path, torn in faults.items() if not torn]).items():
        faults[path] = "one of its files is missing or can't be loaded" if one is None else "" if one["finite"] else NOT_FINITE
    return {path: fault for path, fault in faults.items() if fault}


def saved(output: Path) -> list[Path]:
    """Everything that looks like a checkpoint, intact or not, newest first; nothing where only the first was begun."""
    named = [path for path in output.glob("checkpoint-*") if path.name.rpartition("-")[2].isdigit()]
    return checkpoint_files.begun(sorted(named, key=lambda path: int(path.name.rpartition("-")[2]), reverse=True))


def kept_bytes(output: Path, value: Callable[[str], Any], *, steps: int, per_epoch: int) -> int | None:
    """The most that a run of so many steps has in its folder at once: its checkpoints, with the one that is written before an older one
    goes (``Trainer._save_checkpoint``, ``rotate_checkpoints`` of transformers 5.23), and the model of its end. ``output``: a trial's."""
    sizes = [host.disk_taken(path) for path in saved(output)]
    end, strategy, every = host.disk_taken(output) - sum(sizes), str(value("save_strategy")), float(value("save_steps"))
    if not sizes and strategy != "no":
        return None
    each = max(1, math.ceil(every if every >= 1 else every * steps))
    written = {"no": 0, "steps": math.ceil(steps / each), "epoch": math.ceil(steps / per_epoch)}.get(strategy, 2)  # best: one, and a better
    limit, best = int(value("save_total_limit") or 0), bool(value("load_best_model_at_end") or value("metric_for_best_model"))
    kept = min(written, max(limit, 1 + best)) if limit > 0 else written
    one = max(sizes, default=0)
    return max(min(written, kept + 1) * one, kept * one + end)


def _newest(output: Path) -> Mapping[Path, str]:
    """The newest ones, each with how it is torn, by what its files tell; empty where they tell nothing."""
    by_age = saved(output)[: MOST_LOOKED_AT + 1]
    return {path: _torn(path, before) for path, before in pairwise([*by_age, None]) if path is not None}


def _looked_at(paths: Sequence[Path]) -> dict[Path, Mapping[str, Any] | None]:
    """What each holds; None where it can't be loaded."""
    if not paths:
        return {}
    status, said = process.output_of(process.python_module(_INSIDE, *map(str, paths)))
    if status != 0:
        raise AutofitError(f"looking at checkpoints failed: {said.strip()[-1000:]}")
    return dict(zip(paths, json.loads(said.splitlines()[-1]), strict=True))


def _torn(path: Path, before: Path | None) -> str:
    """By its files' own checksums and lengths: torch loads a tensor with a flipped bit without a word. Weights have no checksums; where a
    machine went down while they were written, their end reads as zeros, which it didn't in the checkpoint before."""
    zeros = next((file.name for file in sorted(path.glob("*.safetensors")) if _ends_in_zeros(file, before)), None)
    return (
        checkpoint_files.unfinished(path)
        or checkpoint_files.fault(path)
        or (f"{zeros} ends in zeros: it was never written to its end" if zeros is not None else "")
    )


def _ends_in_zeros(file: Path, before: Path | None) -> bool:
    """With nothing to hold it against (save_total_limit=1) it takes more zeros: a tensor may never have been trained."""
    usual = (
        checkpoint_files.zeros_at_end(before / file.name) + 1
        if before is not None
        else min(file.stat().st_size // 64, checkpoint_files.MOST_BYTES)
    )
    return checkpoint_files.zeros_at_end(file) >= max(PAGE, usual)


def going_on(command: Command, checkpoint: Path) -> Command:
    return replace(command, argv=(*without(command.argv, "resume_from_checkpoint"), "--resume_from_checkpoint", str(checkpoint)))


def with_workers(command: Command, workers: int) -> Command:
    argv = without(command.argv, "dataloader_num_workers")
    for name in () if workers else OF_WORKERS:
        argv = without(argv, name)
    return replace(command, argv=(*argv, "--dataloader_num_workers", str(workers)))


def without(argv: Sequence[str], name: str) -> tuple[str, ...]:
    """The words without an option and its values."""
    kept: list[str] = []
    dropping = False
    for word in argv:
        if word.startswith("--"):
            dropping = word == f"--{name}"
        if not dropping:
            kept.append(word)
    return tuple(kept)
