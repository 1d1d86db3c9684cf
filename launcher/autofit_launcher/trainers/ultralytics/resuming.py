"""Finds the intact checkpoints of an Ultralytics run. A child process loads them.

Facts of 8.4.190 (engine/trainer.py): last.pt is written in place, so that a kill can tear it; best.pt then is the one before.
A last.pt whose optimizer was stripped is finished: "resuming" it would start a new training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autofit_launcher.adapter.commands import Checkpoint
from autofit_launcher.adapter.protocol import NOT_FINITE
from autofit_launcher.common import checkpoint_files
from autofit_launcher.errors import AutofitError
from autofit_launcher.trainers.ultralytics import environment

MOST_LOOKED_AT = 5
_INSIDE = "autofit_launcher.trainers.ultralytics.inside.checkpoint"


def look(files: Sequence[Path]) -> Mapping[Path, Checkpoint | str]:
    """See ``Saved.look``; torch loads a flipped bit without a word, so that the file's own checksums come first."""
    newest = files[:MOST_LOOKED_AT]
    found: dict[Path, Checkpoint | str] = {path: fault for path in newest if (fault := checkpoint_files.fault(path))}
    looked = _looked_at([path for path in newest if path not in found])
    found |= {path: "it can't be loaded" for path, said in looked.items() if said is None}
    found |= {path: NOT_FINITE for path, said in looked.items() if said is not None and not said["finite"]}
    loaded = [_as_checkpoint(path, said) for path, said in looked.items() if said is not None and path not in found]
    loaded.sort(key=lambda one: (one.finished, one.done), reverse=True)  # stable: last.pt before best.pt
    return {**{one.path: one for one in loaded}, **found}


def saved(weights: Path) -> list[Path]:
    """Everything that looks like a checkpoint, intact or not, newest first."""
    named = [path for path in (weights / "last.pt", weights / "best.pt") if path.is_file()]
    return [*named, *sorted(weights.glob("epoch*.pt"), key=lambda path: path.stat().st_mtime, reverse=True)]


def _looked_at(paths: Sequence[Path]) -> dict[Path, Mapping[str, Any] | None]:
    """Reads what each holds; None where it can't be loaded. Ultralytics' own settings are not touched by it."""
    if not paths:
        return {}
    status, said = environment.asked(_INSIDE, *map(str, paths))
    if status != 0:
        raise AutofitError(f"looking at checkpoints failed: {said.strip()[-1000:]}")
    return dict(zip(paths, json.loads(said.splitlines()[-1]), strict=True))


def _as_checkpoint(path: Path, said: Mapping[str, Any]) -> Checkpoint:
    finished = not said["trains"] or said["done"] >= (said["epochs"] or 0)
    return Checkpoint(path=path, done=said["epochs"] if finished else said["done"], unit="epochs", finished=finished)


def best(weights: Path) -> Path:
    """Names the best weights of a training whose every epoch is done; the last ones where those are torn."""
    path = weights / "best.pt"
    return path if path.exists() and not checkpoint_files.fault(path) else weights / "last.pt"
