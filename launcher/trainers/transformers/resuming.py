"""What a Trainer's run has left -> its whole checkpoints, and the words that go on from one. Loading is done in a child process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from launcher import process, whole
from launcher.errors import AutofitError
from launcher.trainers.base import Checkpoint, Command

MOST_LOOKED_AT = 4
PAGE = 4096
_INSIDE = "launcher.trainers.transformers.inside.checkpoint"
_OF_WORKERS = ("dataloader_prefetch_factor", "dataloader_persistent_workers")
"""Refused by PyTorch where there are no workers."""


def checkpoints(output: Path) -> Sequence[Checkpoint]:
    """The whole ones in an output folder, newest first."""
    named = [path for path in output.glob("checkpoint-*") if path.name.rpartition("-")[2].isdigit()]
    by_age = sorted(named, key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    newest = [path for path, before in pairwise([*by_age[: MOST_LOOKED_AT + 1], None]) if path and not _torn(path, before)][:MOST_LOOKED_AT]
    if not newest:
        return ()
    status, said = process.output_of(process.python_module(_INSIDE, *map(str, newest)))
    if status != 0:
        raise AutofitError(f"looking at checkpoints failed: {said.strip()[-1000:]}")
    found = json.loads(said.splitlines()[-1])
    return [
        Checkpoint(path=path, done=one["steps"], unit="steps", finished=one["steps"] >= one["max_steps"])
        for path, one in zip(newest, found, strict=True)
        if one is not None and one["finite"]
    ]


def _torn(path: Path, before: Path | None) -> bool:
    """By its files' own checksums and lengths: torch loads a tensor with a flipped bit without a word. Weights have no checksums; where a
    machine went down while they were written, their end reads as zeros, which it didn't in the checkpoint before."""
    return bool(whole.fault(path)) or any(_ends_in_zeros(file, before) for file in path.glob("*.safetensors"))


def _ends_in_zeros(file: Path, before: Path | None) -> bool:
    """With nothing to hold it against (save_total_limit=1) it takes more zeros: a tensor may never have been trained."""
    usual = whole.zeros_at_end(before / file.name) + 1 if before is not None else min(file.stat().st_size // 64, whole.MOST_BYTES)
    return whole.zeros_at_end(file) >= max(PAGE, usual)


def going_on(command: Command, checkpoint: Path) -> Command:
    return replace(command, argv=(*without(command.argv, "resume_from_checkpoint"), "--resume_from_checkpoint", str(checkpoint)))


def with_workers(command: Command, workers: int) -> Command:
    argv = without(command.argv, "dataloader_num_workers")
    for name in () if workers else _OF_WORKERS:
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
