"""Reads from a trainer's output how far the run has come. Pure: ``read`` knows what most loops print, adapters know more.

One line tells only a part: a progress bar the step, another line the epoch or the loss. ``Progress.then`` puts them together.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from autofit_launcher.common.sizes import format_number

TRAIN, VALIDATE = "train", "validate"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """A run's progress, as far as its output has told it. None: no line has told it."""

    phase: str | None = None
    """``TRAIN`` or ``VALIDATE``."""
    epoch: float | None = None
    """The current epoch in the trainer's own count, if ``step`` counts within an epoch. Otherwise: epochs done, with fractions."""
    epochs: float | None = None
    step: int | None = None
    """Steps in the trainer's own count: micro-batches of an epoch, or optimizer steps of the whole run."""
    steps: int | None = None
    of_epoch: bool = False
    """True: ``step`` and ``steps`` count within one epoch."""
    loss: float | None = None
    """The trainer's own training loss; may be nan or inf."""
    parts: bool = False
    """True: the trainer tells parts of epochs, so that its steps are the whole run's."""

    @property
    def done(self) -> float | None:
        """Fraction of the run that is done, 0 to 1; None if unknown."""
        part = self.step / self.steps if self.step is not None and self.steps else None
        if part is not None and not self.of_epoch:
            return min(1.0, part)
        if self.epoch is None or not self.epochs:
            return None
        whole = max(0.0, self.epoch - 1) + part if part is not None else self.epoch
        return min(1.0, whole / self.epochs)

    @property
    def short_of_its_length(self) -> str:
        """The run's epoch in words, if two epochs or more are missing to its length; empty if fewer are, or if it isn't told."""
        if self.epoch is None or self.epochs is None or self.epochs - self.epoch < 2:
            return ""
        return f"epoch {format_number(self.epoch)} of {format_number(self.epochs)}"

    def then(self, later: Progress | None) -> Progress:
        """This progress, updated by a later line. Steps of a validation are ignored; those of training stay."""
        if later is None:
            return self
        told = ("phase", "epoch", "epochs", "loss", "parts")
        said: dict[str, Any] = {name: value for name in told if (value := getattr(later, name)) is not None and value is not False}
        without_words = later.epoch is None and self.steps and later.steps and later.steps < self.steps  # a shorter bar than training's
        if later.phase == VALIDATE or without_words:
            said["phase"] = VALIDATE
        elif later.step is not None:
            starts_anew = self.step is not None and later.step < self.step
            in_epoch = self.epoch is not None and not self.parts and later.steps is not None
            steps = later.steps or self.steps
            steps = steps if steps is None or later.step <= steps else None  # it was the length of something else
            of_epoch = later.of_epoch or self.of_epoch or starts_anew or in_epoch
            said = {"phase": TRAIN, **said, "step": later.step, "steps": steps, "of_epoch": of_epoch}
        elif self.of_epoch and said.get("epoch", self.epoch) != self.epoch:
            said |= {"step": None, "steps": None}  # they were of another epoch
        return replace(self, **said)


_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
_COUNT = r"(?P<step>\d+)\s*(?:/|\bof\b)\s*(?P<steps>\d+)(?!\d|[./]\d|\s*[kMG]i?B\b)"
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FILLED = "━╸╺─█▉▊▋▌▍▎▏░▒▓"
_DRAWN = rf"(?:\[[#=>.\-*█░▒▓ ]{{8,}}\]|[|\[]?[{_FILLED}][{_FILLED} ]{{3,}}[|\]]?)"
_BARS = (
    re.compile(rf"\d+%\|[^|]*\|\s*{_COUNT}\s*\["),  # tqdm
    re.compile(rf"{_DRAWN}[^\w/]{{0,12}}(?:\d+%\s*)?\(?{_COUNT}"),  # loops' own, rich
)
_ROW = re.compile(r"\s*(?P<epoch>\d+)/(?P<epochs>\d+)\s")
"""Beginning of the words before YOLOv5's bar."""
_EPOCH = re.compile(
    r"\bepoch\b(?:\(\w+\))?['\"]?[\s:='\"\[(#]*(?P<epoch>\d+(?P<part>\.\d+)?)(?:\s*(?:/|of)\s*(?P<epochs>\d+)(?!\d|/\d))?", re.IGNORECASE
)
_BEHIND = re.compile(rf"\]?[\s:,|]*\[?\s*{_COUNT}")
"""A count behind an epoch: torchvision's and mmengine's brackets, Dora's columns, fairseq's."""
_STEP = re.compile(
    r"\b(?:global_?step|step|iter(?:ation)?)\b(?:\(\w+\))?['\"]?[\s:='\"\[(#]*"
    r"(?P<step>\d+)(?![\w.]|/[^\d\s])(?:\s*(?:/|of)\s*(?P<steps>\d+)(?!\d|/\d))?",
    re.IGNORECASE,
)
_LOSS = re.compile(rf"loss(?:[\s/_]+train)?\b['\"]?[\s:='\"(]*({_NUMBER})(?!\w|\.\d|/)", re.IGNORECASE)
_WHOLE = re.compile(r"(?:^|\W)(?:train(?:ing)?[_ /.-]?)?$", re.IGNORECASE)
"""The end of the words before "loss" where it is all of the training loss."""
_WORD_BEFORE = 12
"""Characters before "loss" that say whose it is."""
_NOT_TRAINING = re.compile(r"val|eval|test|dev", re.IGNORECASE)
_VALIDATES = re.compile(
    r"(?<![\w/.-])(?:val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev)\b(?![/.-]|[\s:=-]*(?:loss|acc))", re.IGNORECASE
)
_OTHER_WORK = re.compile(r"load|map|download|scan|cach|token|prepar|sanity|writ|fetch|sampl|generat|comput|filter|files", re.IGNORECASE)
_ANOTHER_EPOCH = re.compile(r"\b(?:best|stop\w*|from|since|warm-?up|every|until|patience)\b[^\d.;|]{0,20}$", re.IGNORECASE)


def read(line: str) -> Progress | None:
    """Reads a line as most training loops print it: progress bars, ``epoch 3/10``, ``step 40``, ``loss 0.12``. None for any other line.

    A loss counts as training's unless its name says otherwise. Bars of other work (loading, tokenizing) are ignored.
    """
    line = ANSI.sub("", line) if "\x1b" in line else line
    its_loss = loss(line)
    bar = next((hit for bar in _BARS if (hit := bar.search(line))), None) if "/" in line or " of " in line else None
    if bar is not None and _OTHER_WORK.search(before := line[: bar.start()]) and not _NOT_TRAINING.search(before):
        return None
    epoch, end = _epoch(line, bar)
    step = bar or (_BEHIND.match(line, end) if end is not None else None) or _STEP.search(line)
    if step is not None:
        steps = int(step["steps"]) if step["steps"] else None
        of_epoch = bool(epoch.epoch is not None and steps)
        epoch = replace(epoch, phase=_phase(line, step, drawn=bar is not None), step=int(step["step"]), steps=steps, of_epoch=of_epoch)
    found = replace(epoch, loss=its_loss)
    return None if found == Progress() else found


def _phase(line: str, step: re.Match[str], *, drawn: bool) -> str | None:
    """Tells whether a count of steps is of training or of validation; words alone say it only where they name a validation."""
    before = line[: step.start("step")]
    if drawn:
        return VALIDATE if _NOT_TRAINING.search(before) else TRAIN
    return VALIDATE if step["steps"] and _VALIDATES.search(before) else None


def _epoch(line: str, bar: re.Match[str] | None) -> tuple[Progress, int | None]:
    """Reads which epoch a line says it is, and where it says so."""
    if bar is not None and (row := _ROW.match(line, 0, bar.start())):
        return Progress(epoch=float(row["epoch"]), epochs=float(row["epochs"])), None
    for found in _EPOCH.finditer(line):
        if not _ANOTHER_EPOCH.search(line[: found.start()]):
            epochs = float(found["epochs"]) if found["epochs"] else None
            return Progress(epoch=float(found["epoch"]), epochs=epochs, parts=found["part"] is not None), found.end()
    return Progress(), None


def loss(line: str) -> float | None:
    """The training loss in a line; None if there is none, or only that of a validation.

    The whole loss (``loss``, ``train_loss``) is preferred to one of its parts (``box_loss``).
    """
    part = None
    for match in _LOSS.finditer(line):
        before = re.split(r"[\s,;{(]", line[max(0, match.start() - _WORD_BEFORE) : match.start()].rstrip())[-1]
        if _NOT_TRAINING.search(before):
            continue
        with suppress(ValueError):
            value = float(match[1])
            if _WHOLE.search(line[max(0, match.start() - _WORD_BEFORE) : match.start()]):
                return value
            part = value if part is None and math.isfinite(value) else part
    return part
