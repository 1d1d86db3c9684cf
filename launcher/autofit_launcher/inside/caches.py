"""The person's caches -> a trial's own, in which everything of theirs is found and nothing of theirs changes.

Hugging Face's libraries write part of theirs from native code; compilers write theirs from other programs, and load from there. The overlay
reaches neither, the variables that they have for it do. What is there already is linked, file by file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..common.orders import LABELS

CACHES = "caches"
_FOLDERS = {"HF_DATASETS_CACHE": "datasets", "HF_METRICS_CACHE": "metrics", "HF_EVALUATE_CACHE": "evaluate", "HF_MODULES_CACHE": "modules"}
_OURS = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TORCH_EXTENSIONS_DIR": "extensions", LABELS: "labels"}
_ANEW = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
"""Compiled code is shared, graphs are not: a run may have to make them, in memory of its own that a trial must see."""
_MOST_FILES = 20_000


def separate(env: Mapping[str, str], place: Path, *, launch: Path) -> dict[str, str]:
    """Variables that put Hugging Face's caches into ``place``, those of compilers and labels into ``launch``; each is filled once."""
    cache = Path(env.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    home = Path(env.get("HF_HOME") or cache / "huggingface")
    usual: dict[str, Iterable[Path]] = {
        "TRITON_CACHE_DIR": [Path("~/.triton/cache").expanduser()],
        "TORCHINDUCTOR_CACHE_DIR": (
            one for one in Path(tempfile.gettempdir()).glob("torchinductor_*") if one.lstat().st_uid == os.getuid()
        ),
        "TORCH_EXTENSIONS_DIR": (cache / "torch_extensions").glob("*"),
        **{name: [home / folder] for name, folder in _FOLDERS.items()},
    }
    found = {**{name: place / folder for name, folder in _FOLDERS.items()}, **{one: launch / folder for one, folder in _OURS.items()}}
    for name, target in found.items():
        if not target.exists():
            target.mkdir(parents=True, exist_ok=True)
            for source in [Path(env[name])] if env.get(name) else usual.get(name, ()):
                _linked(target, source, shutil.copy2 if name == "TORCH_EXTENSIONS_DIR" else os.symlink)  # ninja writes over what is there
    return {**{name: str(target) for name, target in found.items()}, **_ANEW}


def hold() -> list[Path]:
    """Holds the launch's caches where they are, whatever a script itself chooses for them later; returns them."""
    ours = {name: os.environ[name] for name in _OURS if name in os.environ}
    put: Callable[..., None] = os._Environ.__setitem__

    def held(environ: Any, name: Any, value: Any) -> None:
        mine = ours.get(name)
        put(environ, name, value if mine is None or str(value).startswith(mine) else mine)

    if ours:
        setattr(os._Environ, "__setitem__", held)  # noqa: B010
    return [*map(Path, ours.values())]


def _linked(target: Path, source: Path, put: Callable[[str, Path], Any]) -> None:
    """Makes folders anew and links files; locks are nobody's business."""
    files = 0
    for folder, _, names in os.walk(source):
        there = target / os.path.relpath(folder, source)
        there.mkdir(exist_ok=True)
        files += len(names)
        if files > _MOST_FILES:
            return
        for name in names:
            if not name.endswith("lock"):
                with contextlib.suppress(OSError):
                    put(os.path.abspath(os.path.join(folder, name)), there / name)
