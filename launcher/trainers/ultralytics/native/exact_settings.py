"""What is asked of an exact run. Beside ``yolo.py``; needs the standard library only, until it is put into force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VARIABLE = "YOLO_EXACT"
"""The settings as JSON, for every process of a command."""
READ = "8.4.190"
"""The Ultralytics that these files were written against."""


class Refused(ValueError):
    """The run cannot be done exactly as asked. The message says why and what would work."""


@dataclass(frozen=True, kw_only=True)
class ExactSettings:
    """The settings of a run. ``None`` means: as Ultralytics itself would do it."""

    asked_batch: int | None = None
    """``batch`` of the run that was asked for, over all GPUs. It would take one optimizer step per
    ``E = asked_batch * max(round(asked_nbs / asked_batch), 1)`` images, after a warm-up that ramps the accumulation from 1. This run's
    ``batch`` is a micro-batch that divides ``E``: it steps after the same images (after the micro-batch in which they end, where ``batch``
    doesn't divide ``asked_batch``), in the warm-up and at the end of a pass, too, with the asked run's learning rates and its choice of
    ``optimizer=auto``."""
    asked_nbs: int | None = None
    """``nbs`` of the run that was asked for. This run's ``nbs`` and ``weight_decay`` may be those, or ``E`` and as much larger."""
    checkpointing: bool = False
    """Gradient checkpointing, layer by layer: less memory, about 1.3 to 1.7 times the time; equal gradients and batch-norm statistics."""
    val_batch: int | None = None
    """Validation images per batch and GPU; Ultralytics takes twice the training batch."""
    tell: str | None = None
    """File that gets the path of the folder that the run is kept in."""
    set: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the training, in the place of what the command gives. ``resume``: the checkpoint from which it goes on."""
    trained: str | None = None
    """The training is done already: these are its weights. They are validated in its place, and the script goes on."""
    only: bool = False
    """The script ends with its training."""

    def asked(self, batch: int, nbs: int) -> tuple[int, int]:
        """(batch, nbs) of the asked run, where this run's own are ``batch`` and ``nbs``."""
        return self.asked_batch or batch, self.asked_nbs or nbs


def configure(new: ExactSettings) -> None:
    """Puts ``new`` into force in this process."""
    global settings
    from . import layer_checkpointing

    settings = new
    layer_checkpointing.switch(on=new.checkpointing)


settings = ExactSettings()
