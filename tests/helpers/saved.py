"""What a look at saved files finds, parted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autofit_launcher.adapter import Checkpoint, Saved

Looked = Mapping[Path, Checkpoint | str]


def looked(saved: Saved) -> Looked:
    return saved.look(saved.files)


def whole(found: Looked) -> list[Checkpoint]:
    return [one for one in found.values() if isinstance(one, Checkpoint)]


def spoiled(found: Looked) -> dict[Path, str]:
    return {path: one for path, one in found.items() if isinstance(one, str)}
