"""The person's caches of Hugging Face's libraries -> a trial's own, in which everything of theirs is found and nothing of theirs changes.

Those libraries write part of their caches from native code, which the overlay doesn't reach: the variables they have for it do.
What is there already is linked, file by file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

CACHES = "caches"
_FOLDERS = {"HF_DATASETS_CACHE": "datasets", "HF_METRICS_CACHE": "metrics", "HF_EVALUATE_CACHE": "evaluate", "HF_MODULES_CACHE": "modules"}
_MOST_FILES = 20_000


def huggingface(env: Mapping[str, str], place: Path) -> dict[str, str]:
    """Variables that put the caches into ``place``; filled once."""
    home = Path(env.get("HF_HOME") or Path(env.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface")
    found = {}
    for variable, name in _FOLDERS.items():
        own = Path(env.get(variable) or home / name)
        target = place / name
        if not target.exists():
            _linked(own, target)
        found[variable] = str(target)
    return found


def _linked(source: Path, target: Path) -> None:
    """Folders made anew, files as links; locks are nobody's business."""
    target.mkdir(parents=True)
    files = 0
    for folder, _, names in os.walk(source):
        there = target / os.path.relpath(folder, source)
        there.mkdir(exist_ok=True)
        files += len(names)
        if files > _MOST_FILES:
            return
        for name in names:
            if not name.endswith(".lock"):
                with contextlib.suppress(OSError):
                    os.symlink(os.path.abspath(os.path.join(folder, name)), there / name)
