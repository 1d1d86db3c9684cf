"""Keeps what trials measured, one line of JSON a trial, for later launches of the same training.

Another learning rate, more epochs or a newer package end a kept fit and mostly leave the peaks as they were. No launch depends on the
file: what can't be written is not kept, and a line that can't be read is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher import paths
from launcher.shared import files
from launcher.shared.sizes import MIB

MOST_BYTES = 2 * MIB
"""A larger file loses the older half of its lines, some thousands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PastTrial:
    """One trial that measured its need. Bytes."""

    training: str
    device: str
    """The device's name."""
    rung: Mapping[str, Any]
    """Its values."""
    fits: bool
    phase: str
    """The phase that it ended in."""
    need_bytes: float
    by_phase: Mapping[str, float]
    seconds: float = 0.0
    """How long it took; 0 where nobody kept it."""


def file() -> Path:
    return paths.state_folder() / "trials.jsonl"


def keep(trial: PastTrial) -> None:
    """Adds a trial that was launched in the working folder."""
    path, line = file(), json.dumps({"folder": os.getcwd(), **files.plain(trial)}, default=str)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as lines:
            lines.write(f"\n{line}" if lines.tell() else line)  # a torn line spoils no other
        if path.stat().st_size > MOST_BYTES:
            kept = path.read_text(encoding="utf-8").splitlines()
            files.replace(path, "\n".join(kept[len(kept) // 2 :]))


def of(training: str, *, device: str) -> list[PastTrial]:
    """Trials of this training on this device that were launched in the working folder, oldest first."""
    lines: list[str] = []
    with suppress(OSError):
        lines = file().read_text(encoding="utf-8", errors="replace").splitlines()
    found = (_read(line) for line in lines)
    return [trial for trial in found if trial is not None and (trial.training, trial.device) == (training, device)]


def _read(line: str) -> PastTrial | None:
    """The trial of a line, if the line can be read and its trial was launched in the working folder."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        said = json.loads(line)
        return PastTrial(**said) if said.pop("folder") == os.getcwd() else None
    return None
