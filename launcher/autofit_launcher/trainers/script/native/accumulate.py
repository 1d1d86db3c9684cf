"""Gradient accumulation for a training script that has no word for it: the script is not changed, and never hears of it.

As ``_autofit_accumulate.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process of a command:

    PYTHONPATH=/that/folder ACCUMULATE=4 python train.py --batch-size 16

The script takes micro-batches (its own word for the batch, a ``ACCUMULATE``-th of what was meant) and believes that it steps after each
of them. ``optimizer.step`` is held back until ACCUMULATE micro-batches are in, gradients are weighted so that their sum is that of the
large batch, and what belongs to a step is held back with it: ``zero_grad``, the clipping of gradients, a GradScaler's ``unscale_``,
``step`` and ``update``, learning-rate schedulers that step with every batch, ``AveragedModel.update_parameters``. A pass over the data
ends with a step of its own, as it does with large batches: a last group that is smaller counts by its samples, and where the loader drops
its last batch, as many samples are left out. Until its first pass a shuffled loader tells its length in optimizer steps, so that a
schedule as long as training stays so.

What can't be held back raises ``NotExact`` in the first two optimizer steps, with the reason: an optimizer that is given a closure (LBFGS),
batches that are asked for one by one by a script that counts its steps, gradients thrown away between two steps, trainers that accumulate
themselves. Later on such things are told on stderr, and the run goes on. Whether the update is the large batch's is seen by whoever sets
it: autofit does, by short runs of the same rows.

ACCUMULATE_LOSS=sum is for a loss that is summed over the batch: its gradients are added up instead of averaged.
ACCUMULATE_SPLIT=64:16:train.py:31 is for a script that has no word for its batch: a DataLoader that is made in that line with batches of 64
is made with batches of 16.
It needs nothing but torch, and the files beside it. What it did is told on stderr when the process ends.
"""

from __future__ import annotations

import atexit
import os

from .hooks import install, install_accelerate
from .imported import after_import
from .notes import refuse_deepspeed
from .steps import LOSS, Outside

VARIABLE = "ACCUMULATE"
SPLIT = "ACCUMULATE_SPLIT"

OUTSIDE: Outside | None = None
"""The accumulation of this process, if there is any; for who watches."""


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    global OUTSIDE
    every = int(os.environ.get(VARIABLE) or 1)
    whole, part, place = (os.environ.get(SPLIT) or "::").split(":", 2)
    if every > 1 or part:
        outside = OUTSIDE = Outside(every, os.environ.get(LOSS, ""), (int(whole), int(part), place) if part else None)
        held = {"deepspeed.runtime.engine": refuse_deepspeed, "accelerate.data_loader": lambda module: install_accelerate(outside, module)}
        after_import({"torch": lambda torch: install(outside, torch), **(held if every > 1 else {})})
        atexit.register(outside.ended)
