"""Keeps Ultralytics from writing into the user's folders, from downloading, and from hiding failures of memory."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launcher.inside.recorder import Recorder

SHOWN = 5
"""Corrupt images that are named one by one."""

Scan = tuple[int, int, int, int, int]
"""(found, missing, empty, corrupt, total) images of a data set."""


def isolate(recorder: Recorder, caches: Path) -> list[Scan]:
    """Does all of that. Returns a list that fills with the results of scans; ``caches`` is the folder of our own label caches."""
    scans = _keep_label_caches_away(caches, recorder)
    _no_downloads()
    _report_assigner_failures(recorder)
    _saving_fails_at_once()
    return scans


def module(name: str) -> Any:
    """A module of Ultralytics', open to be changed."""
    return importlib.import_module(name)


def _keep_label_caches_away(folder: Path, recorder: Recorder) -> list[Scan]:
    """Label caches are read from ours or the user's, written only to ours. Returns a list that fills with the scans' results.

    What a scan ignores is noted, in Ultralytics' own words.
    """
    dataset = module("ultralytics.data.dataset")
    load, save = dataset.load_dataset_cache_file, dataset.save_dataset_cache_file
    scans: list[Scan] = []

    def ours(path: Path) -> Path:
        return folder / f"{path.stem}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.cache"

    def load_ours(path: Path) -> Any:
        path = Path(path)
        cache = load(ours(path)) if ours(path).exists() else load(path)
        scans.append(tuple(cache["results"]))
        _note_ignored(cache.get("msgs", ()), recorder)
        return cache

    def save_ours(prefix: str, path: Path, x: Any, version: str) -> None:
        scans.append(tuple(x["results"]))
        _note_ignored(x.get("msgs", ()), recorder)
        save(prefix, ours(Path(path)), x, version)

    dataset.load_dataset_cache_file, dataset.save_dataset_cache_file = load_ours, save_ours
    return scans


def _note_ignored(said: Sequence[str], recorder: Recorder) -> None:
    """Images and labels that the run will do without, by name."""
    ignored = [line for line in said if "ignoring corrupt" in line]
    for line in ignored[:SHOWN]:
        recorder.note(re.sub(r"\x1b\[[\d;]*m", "", line).strip())
    if len(ignored) > SHOWN:
        recorder.note(f"... and {len(ignored) - SHOWN} more images that are ignored as corrupt")


def _no_downloads() -> None:
    """``YOLO_OFFLINE`` still lets files be fetched; a trial fetches nothing."""

    def refuse(url: str, *_: Any, **__: Any) -> None:
        raise ConnectionError(f"a trial downloads nothing, and this was asked for: {url}. Fetch it once beforehand, or give its path")

    module("ultralytics.utils.downloads").safe_download = refuse
    module("ultralytics.data.utils").safe_download = refuse
    module("ultralytics.utils.checks").check_pip_update_available = lambda: False


def _report_assigner_failures(recorder: Recorder) -> None:
    """The label assigner survives running out of memory, on the CPU or image by image, and hundreds of times slower.

    What it tries again is ``_forward``; versions that have none (8.3.0) don't survive it.
    """
    assigner = module("ultralytics.utils.tal").TaskAlignedAssigner
    assign = getattr(assigner, "_forward", None)
    if assign is None:
        return

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return assign(self, *args, **kwargs)
        except RuntimeError as error:
            if "out of memory" in str(error).lower():
                recorder.swallowed(f"{type(self).__name__} ran out of memory (batch {self.bs}, {self.n_max_boxes} boxes) and went on")
            raise

    assigner._forward = watched


def _saving_fails_at_once() -> None:
    """Ultralytics tries ``torch.save`` again after any RuntimeError, on a buffer that the first failure closed: an out-of-memory
    error would end as "ValueError: I/O operation on closed file" (seen under a CPU budget)."""
    patches, torch = module("ultralytics.utils.patches"), module("torch")
    plain = getattr(patches, "_torch_save", torch.save)

    def save(*args: Any, use_dill: bool = False, **kwargs: Any) -> None:  # a word of Ultralytics' own, in 8.3.0
        plain(*args, **kwargs)

    torch.save = save
