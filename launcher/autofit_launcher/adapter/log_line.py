"""Reads one line of a full run's output: how far the run is, whether its loss is finite. Pure.

``read`` knows what most training loops print, including the table of YOLO trainings and their forks. An adapter's ``read_log`` adds what
only its trainer prints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from autofit_launcher.adapter import progress
from autofit_launcher.adapter.progress import ANSI, Progress
from autofit_launcher.common.files import line_of


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """The facts that one line tells. None, or an empty text: the line says nothing about it."""

    progress: Progress
    """The run's progress, this line included."""
    loss_finite: bool | None = None
    """True: the training loss that the line reports is a finite number."""
    loss_of: str = ""
    """The part of the run that the loss is of (an epoch, say): several reports of the same count once. Empty: each report counts."""
    optimizer_steps: int | None = None
    """Optimizer steps that the run has made in all, as it prints them at its end."""


ANOTHER_TRAINING = "is another training than asked from here on"
"""A deviation after which a run that comes to its end isn't done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerWords:
    """A trainer's messages and their meaning, as regular expressions. Messages of PyTorch and CUDA and common ones are known already."""

    out_of_memory: str = ""
    """The trainer lost something to memory and goes on."""
    diverged: str = ""
    """The trainer ended because its loss or its weights are not finite."""
    deviations: Mapping[str, str] = field(default_factory=dict)
    """Expression -> how the trainer deviates from what was asked; told as soon as it is printed."""

    def loses_memory(self, line: str) -> bool:
        return bool(self.out_of_memory and re.search(self.out_of_memory, line))

    def divergence(self, text: str) -> str:
        """The first line in which the trainer says that it has diverged; empty if there is none."""
        return line_of(re.compile(self.diverged), text) if self.diverged else ""

    def deviation(self, line: str) -> str:
        """Tells how the trainer deviates from what was asked, by this line; empty if it doesn't."""
        return next((what for expression, what in self.deviations.items() if re.search(expression, line)), "")


def joined(words: Iterable[TrainerWords]) -> TrainerWords:
    """The words of several trainers together: a user's command may run any of them."""
    every = list(words)
    return TrainerWords(
        out_of_memory="|".join(f"(?:{one.out_of_memory})" for one in every if one.out_of_memory),
        diverged="|".join(f"(?:{one.diverged})" for one in every if one.diverged),
        deviations={expression: what for one in every for expression, what in one.deviations.items()},
    )


_TABLE = re.compile(r"^\s*(?P<epoch>\d+)/\d+\s+[\d.]+[GM]\s+(?P<figures>.+)")
"""A row of the table that YOLO trainings print: epoch, memory, means of the losses, instances, size. NaN stays until the epoch ends."""
_NOT_FINITE = re.compile(r"[-+]?(nan|inf(inity)?)", re.IGNORECASE)


def read(line: str, known: Progress) -> LogLine:
    """Reads a line as most training loops print it. ``known``: how far the run had come before."""
    plain = ANSI.sub("", line)
    said = progress.read(plain)
    if (row := _TABLE.match(plain)) is not None:
        finite = not any(_NOT_FINITE.fullmatch(word) for word in row["figures"].split())
        return LogLine(progress=known.then(said), loss_finite=finite, loss_of=row["epoch"])
    loss = said.loss if said is not None else progress.loss(plain)
    return LogLine(progress=known.then(said), loss_finite=None if loss is None else math.isfinite(loss))
