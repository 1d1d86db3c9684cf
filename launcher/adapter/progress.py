"""Reads from a trainer's output how far the run has come. Pure: ``read`` knows what most loops print, adapters know more.

What is known comes in pieces: a progress bar tells the step, another line the epoch or the loss. ``Progress.then`` puts them together.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

TRAIN, VALIDATE = "train", "validate"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a run has come; None is what nobody has told."""

    phase: str | None = None
    """``TRAIN`` or ``VALIDATE``."""
    epoch: float | None = None
    """The epoch that the run is in, from 1, where ``step`` counts within it; else epochs done, fractions included."""
    epochs: float | None = None
    step: int | None = None
    """As the trainer counts: micro-batches of an epoch, or optimizer steps of the whole run."""
    steps: int | None = None
    of_epoch: bool = False
    """``step`` and ``steps`` are of one epoch."""
    loss: float | None = None
    """The trainer's own training loss; may be nan or inf."""
    batch: int | None = None
    """Samples of one step."""

    @property
    def done(self) -> float | None:
        """The part of the run that is behind it, 0 to 1."""
        part = self.step / self.steps if self.step is not None and self.steps else None
        if part is not None and not self.of_epoch:
            return min(1.0, part)
        if self.epoch is None or not self.epochs:
            return None
        whole = max(0.0, self.epoch - 1) + part if part is not None else self.epoch
        return min(1.0, whole / self.epochs)

    @property
    def steps_done(self) -> int | None:
        """Steps since the run's beginning."""
        if not self.of_epoch:
            return self.step
        if self.step is None or not self.steps or self.epoch is None:
            return None
        return int(max(0.0, self.epoch - 1)) * self.steps + self.step

    def then(self, later: Progress | None) -> Progress:
        """Together with what a later line has said. Steps in validation are nobody's: those of training stay."""
        if later is None:
            return self
        said: dict[str, Any] = {
            name: value for name in ("phase", "epoch", "epochs", "loss", "batch") if (value := getattr(later, name)) is not None
        }
        if later.phase == VALIDATE or self._another_pass(later):
            said["phase"] = VALIDATE
        elif later.step is not None:
            starts_anew = self.step is not None and later.step < self.step
            of_epoch = later.of_epoch or self.of_epoch or starts_anew or (self.epoch is not None and later.steps is not None)
            said |= {"step": later.step, "steps": later.steps or self.steps, "of_epoch": of_epoch}
        elif self.of_epoch and said.get("epoch", self.epoch) != self.epoch:
            said |= {"step": None, "steps": None}  # they were of another epoch
        return replace(self, **said)

    def _another_pass(self, later: Progress) -> bool:
        """A bar without a word, and shorter than training's: a validation."""
        return bool(later.epoch is None and self.steps and later.steps and later.steps < self.steps)


_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
_COUNT = r"(?P<step>\d+)\s*(?:/|of)\s*(?P<steps>\d+)"
BAR = re.compile(rf"(?P<before>[^|]*?):?\s*\d+%\|[^|]*\|\s*{_COUNT}\s*\[")
"""tqdm's."""
_EPOCH = re.compile(
    rf"\bepochs?\b['\"]?[\s:='\"\[(#]*(?P<epoch>\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(?P<epochs>\d+))?(?:\s*\[{_COUNT})?", re.IGNORECASE
)
_STEP = re.compile(
    r"\b(?:global_?step|steps?|iter(?:ation)?s?|batch)\b['\"]?[\s:='\"\[(#]*(?P<step>\d+)(?![\d.])(?:\s*(?:/|of)\s*(?P<steps>\d+))?",
    re.IGNORECASE,
)
_LOSS = re.compile(rf"loss\b['\"]?[\s:='\"(]*({_NUMBER})(?![\w.])", re.IGNORECASE)
_WORD_BEFORE = 12
"""Characters before "loss" that say whose it is."""
_NOT_TRAINING = re.compile(r"val|eval|test|dev", re.IGNORECASE)
_OTHER_WORK = re.compile(r"load|map|download|scan|cach|token|prepar|sanity|writ|fetch|sampl|generat|comput|filter|files", re.IGNORECASE)


def read(line: str) -> Progress | None:
    """What most training loops' lines say: tqdm's bars, ``epoch 3/10``, ``step 40``, ``loss 0.12``. None where it is none of that.

    A loss is of training unless its own word says otherwise; bars of other work (loading, tokenizing) are nobody's progress.
    """
    bar, epoch = BAR.match(line) if "%|" in line else None, _EPOCH.search(line)
    validates = bar is not None and bool(_NOT_TRAINING.search(bar["before"]))
    if bar is not None and not validates and _OTHER_WORK.search(bar["before"]):
        return None
    step = bar or (epoch if epoch and epoch["step"] else _STEP.search(line))
    found = Progress(
        phase=None if bar is None else VALIDATE if validates else TRAIN,
        epoch=float(epoch["epoch"]) if epoch else None,
        epochs=float(epoch["epochs"]) if epoch and epoch["epochs"] else None,
        step=int(step["step"]) if step else None,
        steps=int(step["steps"]) if step and step["steps"] else None,
        of_epoch=bool(epoch and step and step["steps"]),
        loss=loss(line),
    )
    return None if found == Progress() else found


def loss(line: str) -> float | None:
    """The training loss that a line tells; None where it tells none, or only that of a validation."""
    for match in _LOSS.finditer(line):
        before = re.split(r"[\s,;{(]", line[max(0, match.start() - _WORD_BEFORE) : match.start()].rstrip())[-1]
        if not _NOT_TRAINING.search(before):
            with suppress(ValueError):
                return float(match[1])
    return None
