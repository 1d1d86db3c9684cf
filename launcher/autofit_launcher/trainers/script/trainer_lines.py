"""Reads how far a run of Hugging Face's Trainer has come: by its bar, which counts optimizer steps, and its lines of words. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from autofit_launcher.adapter import progress
from autofit_launcher.adapter.progress import TRAIN, VALIDATE, Progress

_BAR = re.compile(r"\s*\d+%\|[^|]*\|\s*(\d+)/(\d+)(?:\s|$)")
_BELOW_ANOTHER = "\x1b[A"
"""Tqdm's ending of a bar that stands below another one: it goes up again."""


def read(line: str, known: Progress) -> Progress:
    """Reads the next line of a run. An evaluation's bar stands below the training's, or comes after it."""
    if (bar := _BAR.match(line)) is not None:
        step, steps = int(bar[1]), int(bar[2])
        if line.endswith(_BELOW_ANOTHER) or known.steps not in (None, steps):
            return replace(known, phase=VALIDATE)
        return replace(known, phase=TRAIN, step=step, steps=steps)
    told = progress.read(line) if line.startswith("{") and "'train_runtime'" not in line else None
    if told is None:
        return known
    phase = TRAIN if told.loss is not None else VALIDATE if "'eval_" in line else known.phase
    return replace(known.then(Progress(epoch=told.epoch, loss=told.loss)), phase=phase)
