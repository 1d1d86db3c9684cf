"""What was asked of an exact run, and how that travels to the processes it starts. Beside ``yolo_exact.py``."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass

if __package__:
    from . import layer_checkpointing
else:  # copied beside yolo_exact.py
    import layer_checkpointing  # type: ignore[import-not-found,no-redef]

ENVIRONMENT_VARIABLE = "YOLO_EXACT"
READ = "8.4.190"
"""The Ultralytics that these files were written against."""
OLDEST = (8, 3, 0)
"""The first Ultralytics that they were run with."""


class Refused(ValueError):
    """The run cannot be done exactly as asked. The message says why and what would work."""


def check_version(version: str) -> None:
    """Raises ``Refused`` where this version of Ultralytics is older than any that these files were run with."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if numbers is not None and tuple(map(int, numbers.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Refused(
            f"ultralytics {version} is installed; exact training needs {oldest} or a later one: pip install 'ultralytics>={oldest}'"
        )


@dataclass(frozen=True, kw_only=True)
class ExactSettings:
    """The options of this run. ``None`` means: as Ultralytics itself would do it."""

    asked_batch: int | None = None
    """``batch`` of the asked run, over all GPUs."""
    asked_nbs: int | None = None
    """``nbs`` of the asked run."""
    checkpointing: bool | float = False
    """All layers, or the first that hold this share of what is kept for backward."""
    val_batch: int | None = None
    """Validation images per batch and GPU."""
    tell: str | None = None
    """File that gets the path of the folder that the run is kept in."""

    @classmethod
    def from_environment(cls) -> ExactSettings:
        return cls(**json.loads(os.environ.get(ENVIRONMENT_VARIABLE, "{}")))

    def asked(self, batch: int, nbs: int) -> tuple[int, int]:
        """(batch, nbs) of the asked run, where this run's own are ``batch`` and ``nbs``."""
        return self.asked_batch or batch, self.asked_nbs or nbs


def configure(new: ExactSettings) -> None:
    """Makes ``new`` the settings of this process and of every process it starts."""
    global settings
    settings = new
    os.environ[ENVIRONMENT_VARIABLE] = json.dumps(asdict(new))
    if new.checkpointing:
        layer_checkpointing.enable(float(new.checkpointing))
    else:
        layer_checkpointing.disable()


settings = ExactSettings()
