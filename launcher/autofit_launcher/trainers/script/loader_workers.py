"""Finds how a command says its data loader's workers, so that a run for which memory, files or /dev/shm ran short can go on with fewer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from autofit_launcher.adapter.python_source import parsed
from autofit_launcher.ladder.rungs import Value
from autofit_launcher.trainers.script.rules import ScriptArgs
from autofit_launcher.trainers.script.said import begin
from autofit_launcher.trainers.script.spelling import Line, kind
from autofit_launcher.trainers.script.spelling import name as bare


class Workers(NamedTuple):
    """The word for them, and how many the command says."""

    spelling: str
    number: int


_NEED_ONE = re.compile(r"persistent_workers\s*=\s*True|prefetch_factor\s*=\s*\d")
"""PyTorch refuses these where there are no workers."""


def said(args: ScriptArgs, files: Iterable[Path], *, asked: Value = None) -> Workers | None:
    """Finds the word for workers: the recipe's, else a word of the command of such a name. None where nobody says a number (``asked``: the
    recipe), where no word says it, or where a loader of the script's source (``files``) can't do without workers."""
    if any(_NEED_ONE.search(parsed(file)[0]) for file in files):
        return None
    line = Line(words=list(args.command), begin=begin(args))
    for spelling in [args.spelled["workers"]] if "workers" in args.spelled else _named_so(line.words[line.begin :]):
        count = line.value(spelling) if asked is None else str(asked)
        if count.isdecimal() and kind(spelling)[0] in ("flag", "joined"):
            return Workers(spelling, int(count))
    return None


_NAMES = ("workers", "worker", "num_workers", "num_worker", "n_workers", "nw", "dataloader_num_workers")


def _named_so(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        name, equals, _ = word.partition("=")
        if (name.startswith("-") or equals) and bare(name).lstrip("-").replace("-", "_").lower() in _NAMES:
            yield name if name.startswith("-") else f"{name}{equals}"
