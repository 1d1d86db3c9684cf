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
    """The current epoch, from 1, if ``step`` counts within an epoch. Otherwise: epochs done, with fractions."""
    epochs: float | None = None
    step: int | None = None
    """Steps in the trainer's own count: micro-batches of an epoch, or optimizer steps of the whole run."""
    steps: int | None = None
    of_epoch: bool = False
    """True: ``step`` and ``steps`` count within one epoch."""
    loss: float | None = None
    """The trainer's own training loss; may be nan or inf."""
    from_zero: bool | None = None
    """True: the trainer counts whole epochs from 0. False: it tells parts of epochs. None: its lines haven't shown it."""

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
        said = self._of_epochs(later)
        without_words = later.epoch is None and self.steps and later.steps and later.steps < self.steps  # a shorter bar than training's
        if later.phase == VALIDATE or without_words:
            said["phase"] = VALIDATE
        elif later.step is not None:
            starts_anew = self.step is not None and later.step < self.step
            in_epoch = self.epoch is not None and self.from_zero is not False and later.steps is not None
            steps = later.steps or self.steps
            steps = steps if steps is None or later.step <= steps else None  # it was the length of something else
            of_epoch = later.of_epoch or self.of_epoch or starts_anew or in_epoch
            said = {"phase": TRAIN, **said, "step": later.step, "steps": steps, "of_epoch": of_epoch}
        elif self.of_epoch and said.get("epoch", self.epoch) != self.epoch:
            said |= {"step": None, "steps": None}  # they were of another epoch
        return replace(self, **said)

    def _of_epochs(self, later: Progress) -> dict[str, Any]:
        """The epoch fields of a later line, counted from 1. Epochs 0/9 to 9/9 are ten, and so are 0/10 to 9/10."""
        names = ("phase", "epoch", "epochs", "loss", "from_zero")
        said: dict[str, Any] = {name: value for name in names if (value := getattr(later, name)) is not None}
        if later.epoch is not None and said.get("from_zero", self.from_zero):
            said["epoch"] = later.epoch + 1
            if later.epoch == said.get("epochs", self.epochs):
                said["epochs"] = said["epoch"]
        return said


_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
_COUNT = r"(?P<step>\d+)\s*(?:/|\bof\b)\s*(?P<steps>\d+)(?!\d|[./]\d|\s*[kMG]i?B\b)"
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FILLED = "━╸╺─█▉▊▋▌▍▎▏░▒▓"
_DRAWN = rf"(?:\[[#=>.\-*█░▒▓ ]{{8,}}\]|[|\[]?[{_FILLED}][{_FILLED} ]{{3,}}[|\]]?)"
_BARS = tuple(
    map(
        re.compile,
        (
            rf"\d+%\|[^|]*\|\s*{_COUNT}\s*\[",  # tqdm
            rf"\d+%\s*\({_COUNT}\)\s*\|",  # progressbar2
            rf"{_DRAWN}[^\w/]{{0,12}}(?:\d+%\s*)?\(?{_COUNT}",  # loops' own, rich, alive-progress
            rf"(?<![\w/.-]){_COUNT}\s*{_DRAWN}",  # Keras
        ),
    )
)
_ROW = re.compile(r"\s*(?P<epoch>\d+)/(?P<epochs>\d+)\s")
"""Beginning of the words before YOLOv5's bar."""
_EPOCH = re.compile(
    r"\b(?:epoch(?P<many>s?)\b(?:\(\w+\))?|train(?:ing)?:(?=\s*\[?\d+(?:/\d+)?\]?\s*\[))['\"]?[\s:='\"\[(#]*"
    r"(?P<epoch>\d+(?P<part>\.\d+)?)(?:\s*(?:/|of)\s*(?P<epochs>\d+)(?!\d|/\d))?",
    re.IGNORECASE,
)
"""An epoch's number, and how many there are; also timm's and Swin's ``Train: 0 [  50/1251``."""
_IN_EPOCH = tuple(map(re.compile, (rf"\]?[\s:,|]*\[\s*{_COUNT}", rf"\]?\s*\|\s*{_COUNT}\s*\|", rf":\s+{_COUNT}(?=.*loss)")))
"""A count behind an epoch: torchvision's and mmengine's brackets, Dora's columns, fairseq's."""
_STEP = re.compile(
    r"\b(?:global_?step|step|iter(?:ation)?|(?P<many>steps|iter(?:ation)?s|batch))\b(?:\(\w+\))?['\"]?[\s:='\"\[(#]*"
    r"(?P<step>\d+)(?![\w.]|/[^\d\s])(?:\s*(?:/|of)\s*(?P<steps>\d+)(?!\d|/\d))?",
    re.IGNORECASE,
)
_IN_BRACKETS = re.compile(rf"\[\s*{_COUNT}\s*(?:\(\s*\d+%\s*\))?\s*\]")
"""A count as PyTorch's tutorials print it: ``loss: 2.303494  [   64/60000]``."""
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
_DOES_OTHER_WORK = re.compile(rf"\W*(?:{_OTHER_WORK.pattern})\w*ing\b", re.IGNORECASE)
_ANOTHER_EPOCH = re.compile(r"\b(?:best|stop\w*|from|since|warm-?up|every|until|patience)\b[^\d.;|]{0,20}$", re.IGNORECASE)
_IN_ALL = re.compile(r"(?:^|[-{(,\[;'\"|]|\b(?:num|number of|total|max|maximum)[ _])\s*$", re.IGNORECASE)


def read(line: str) -> Progress | None:
    """Reads a line as most training loops print it: progress bars, ``epoch 3/10``, ``step 40``, ``loss 0.12``. None for any other line.

    A loss counts as training's unless its name says otherwise. Bars of other work (loading, tokenizing) are ignored.
    """
    line = ANSI.sub("", line) if "\x1b" in line else line
    its_loss = loss(line)
    bar = next((hit for bar in _BARS if (hit := bar.search(line))), None) if "/" in line or " of " in line else None
    if bar is not None and _of_other_work(line, bar):
        return None
    epoch, end = _epoch(line, bar, told=its_loss is not None)
    behind = next((hit for count in _IN_EPOCH if (hit := count.match(line, end))), None) if end is not None else None
    step = bar or behind or _step(line, told=its_loss is not None or epoch.epoch is not None)
    if step is None and its_loss is not None:
        step = _IN_BRACKETS.search(line)
    if step is not None:
        steps = int(step["steps"]) if step["steps"] else None
        of_epoch = bool(epoch.epoch is not None and steps)
        epoch = replace(epoch, phase=_phase(line, step, drawn=bar is not None), step=int(step["step"]), steps=steps, of_epoch=of_epoch)
    found = replace(epoch, loss=its_loss)
    return None if found == Progress() else found


def _of_other_work(line: str, bar: re.Match[str]) -> bool:
    before = line[: bar.start()]
    return not _NOT_TRAINING.search(before) and bool(_OTHER_WORK.search(before) or _DOES_OTHER_WORK.match(line[bar.end() :]))


def _phase(line: str, step: re.Match[str], *, drawn: bool) -> str | None:
    """Tells whether a count of steps is of training or of validation; words alone say it only where they name a validation."""
    before = line[: step.start("step")]
    if drawn:
        return VALIDATE if _NOT_TRAINING.search(before) else TRAIN
    return VALIDATE if step["steps"] and _VALIDATES.search(before) else None


def _epoch(line: str, bar: re.Match[str] | None, *, told: bool) -> tuple[Progress, int | None]:
    """Reads which epoch a line says it is, or how many there are, and where it says so. ``told``: it tells more of the training."""
    if bar is not None and (row := _ROW.match(line, 0, bar.start())):
        return Progress(epoch=float(row["epoch"]), epochs=float(row["epochs"]), from_zero=row["epoch"] == "0" or None), None
    for found in _EPOCH.finditer(line):
        before = line[: found.start()]
        number, of = float(found["epoch"]), float(found["epochs"]) if found["epochs"] else None
        if found["many"] and of is None and not told:
            if _IN_ALL.search(before):
                return Progress(epochs=number), None
        elif not _ANOTHER_EPOCH.search(before):
            return Progress(epoch=number, epochs=of, from_zero=False if found["part"] else True if number == 0 else None), found.end()
    return Progress(), None


def _step(line: str, *, told: bool) -> re.Match[str] | None:
    """Finds a step's count: a bare plural (``steps: 100``) is a length, and ``batch: 16`` a size, in a line that tells nothing else."""
    for found in _STEP.finditer(line):
        if (told or found["steps"] or not found["many"]) and not _DOES_OTHER_WORK.match(line[found.end() :]):
            return found
    return None


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
