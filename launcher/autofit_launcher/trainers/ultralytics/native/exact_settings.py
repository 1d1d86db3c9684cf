"""The settings of an exact run. Beside ``yolo.py``; needs the standard library only, until they are put into force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VARIABLE = "YOLO_EXACT"
"""The settings as JSON, for every process of a command."""


class Refused(ValueError):
    """The run cannot be done exactly as asked. The message says why and what would work."""


@dataclass(frozen=True, kw_only=True)
class ExactSettings:
    """The settings of a run. ``None`` means: as Ultralytics itself would do it."""

    micro_batch: int | None = None
    """Images of one forward and backward pass, on each GPU. Each batch of the training, which is the asked run's, is trained in parts of so
    many: it steps after the same images, with the same learning rates, in the warm-up and at the end of a pass, too."""
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


def configure(new: ExactSettings) -> None:
    """Puts ``new`` into force in this process."""
    global settings
    from . import layer_checkpointing

    settings = new
    layer_checkpointing.switch(on=new.checkpointing)


settings = ExactSettings()
