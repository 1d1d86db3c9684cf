"""Tells TensorBoard, Weights & Biases and MLflow what autofit chose, where the trainer logs to them. Nothing that trains reads it.

W&B and MLflow take it from variables of their own: tags, which a resumed attempt may change (MLflow refuses to change a parameter). Beside
TensorBoard's files one more file is written when an attempt has ended. Any script finds it in its environment, as ``AUTOFIT_...``.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from launcher.history.records import Record
from launcher.ladder.rungs import Rung
from launcher.run import event_file
from launcher.shared import files
from launcher.shared.sizes import format_size
from launcher.trial.job import Job

WANDB_TAGS, MLFLOW_CONTEXT = "WANDB_TAGS", "MLFLOW_RUN_CONTEXT"
MOST_SECONDS = 1.0
"""A search for TensorBoard's files takes no longer: a working folder may hold a whole data set."""
DEEPEST = 6
_NOTHING_LOGGED = frozenset({"trials", "node_modules", "site-packages", "__pycache__"})
log = logging.getLogger(__name__)

Facts = Mapping[str, int | str]


def facts(job: Job, rung: Rung) -> Facts:
    """What is told of an attempt at this rung. Sizes are bytes; without ``trial_peak_bytes`` where the rung itself was not tried."""
    record = Record.read(job.folder.record) or Record()
    tried = next((one for one in reversed(record.trials) if one.rung_index == rung.index), None)
    return {
        "rung": rung.index,
        **{name: value for name, value in rung.values.items() if isinstance(value, (int, str))},
        "accumulation": rung.accumulation,
        "effective_batch": tried.effective_batch if tried is not None else rung.effective_batch,
        **({"trial_peak_bytes": tried.peak_bytes} if tried is not None else {}),
        "cap_bytes": job.budget.cap_bytes,
        "budget_bytes": job.budget.budget_bytes,
        "run_dir": str(job.folder.path),
    }


def environment(told: Facts, theirs: Mapping[str, str]) -> dict[str, str]:
    """Variables for the full run. ``theirs``: what it would have without; nothing that stands there is lost."""
    found = {f"AUTOFIT_{name.upper()}": str(value) for name, value in told.items()}
    tags = [f"autofit {name} {value}"[:64] for name, value in _for_people(told).items()]
    found[WANDB_TAGS] = ",".join([*filter(None, [theirs.get(WANDB_TAGS)]), *tags])
    with suppress(ValueError, TypeError):  # a context that can't be read stays as it is
        context = json.loads(theirs.get(MLFLOW_CONTEXT) or "{}")
        found[MLFLOW_CONTEXT] = json.dumps({**context, **{f"autofit.{name}": str(value) for name, value in told.items()}})
    return found


def _for_people(told: Facts) -> dict[str, str]:
    """Names and values of what is worth a tag."""
    sizes = {name: format_size(int(value)) for name, value in told.items() if name.endswith("_bytes")}
    return {
        name.removesuffix("_bytes").replace("_", " "): sizes.get(name, str(value)).replace(",", " ")
        for name, value in told.items()
        if name != "run_dir"
    }


# -- TensorBoard


def tell_tensorboard(told: Facts, *, pids: Collection[int], places: Collection[Path]) -> list[Path]:
    """Writes a file beside those that these processes have written for TensorBoard; returns the new files. Fails nothing."""
    found = list(dict.fromkeys(path.parent for place in places for path in _event_files(place, pids)))
    written = []
    for folder in found:
        path = folder / f"events.out.tfevents.{int(time.time()):010d}.autofit.{os.getpid()}.0"
        try:
            files.replace_bytes(path, event_file.content(told, _for_people(told), at=time.time()))
            written.append(path)
        except OSError as error:
            log.warning("TensorBoard was not told: %s: %s", folder, error.strerror)
    return written


def _event_files(top: Path, pids: Collection[int]) -> Iterator[Path]:
    """TensorBoard's files under a folder that one of these processes has written; those nearest to the top first."""
    ends = time.monotonic() + MOST_SECONDS
    folders = deque([(top, 0)])
    while folders and time.monotonic() < ends:
        folder, depth = folders.popleft()
        entries = _entries(folder)
        yield from (Path(one.path) for one in entries if _written_by(one.name, pids))
        folders += [(Path(one.path), depth + 1) for one in entries if depth < DEEPEST and _may_hold_logs(one)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _written_by(name: str, pids: Collection[int]) -> bool:
    """``events.out.tfevents.TIME.HOST.PID.NUMBER``; a host's name may have dots."""
    return name.startswith(event_file.PREFIX) and any(part.isdecimal() and int(part) in pids for part in name.split(".")[4:])


def _may_hold_logs(entry: os.DirEntry[str]) -> bool:
    return entry.name not in _NOTHING_LOGGED and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
