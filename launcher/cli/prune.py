"""``autofit runs --prune``: removes the folders of runs that are over, after asking.

A run that holds a checkpoint, or any weights, stays unless ``--checkpoints`` is said; one that is at work, or may be, always does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.call import Answer, Call
from launcher.errors import COMMAND_LINE, BadInput, ExitCode, Fault

if TYPE_CHECKING:
    from launcher.history.runs import Run

PRUNE = "--prune"
CHECKPOINTS = "--checkpoints"
YES = "--yes"
_WEIGHTS = (".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".onnx", ".h5", ".keras", ".msgpack", ".pkl", ".npz")


@dataclass(frozen=True, kw_only=True, slots=True)
class Old:
    """A run that is over, and what its folder takes."""

    run: Run
    size_bytes: int
    checkpoint: bool
    """It holds weights of a training."""


def prune(call: Call, runs: Sequence[Run], root: Path) -> Answer:
    """Lists what would go, asks, and removes it. Raises BadInput where it can't ask and wasn't told."""
    from launcher.shared.sizes import format_size

    over = [_old(run) for run in runs if _is_over(run) and run.folder.path.is_relative_to(root.resolve())]  # none that is only linked to
    go = [one for one in over if CHECKPOINTS in call.flags or not one.checkpoint]
    kept = len(over) - len(go)
    total = sum(one.size_bytes for one in go)
    for one in go:
        call.terminal.say(f"{one.run.folder.path}  {one.run.state}  {format_size(one.size_bytes)}")
    if kept:
        call.terminal.say(f"kept: {_runs(kept)} with checkpoints ({CHECKPOINTS} removes those, too)")
    if others := len(runs) - len(over):
        call.terminal.say(f"left alone: {_runs(others)} at work, or linked to, or of which nobody here can say that it is over")
    if not go:
        call.terminal.say(f"nothing to remove in {root}")
        return Answer(status=ExitCode.DONE, record={"removed": [], "bytes": 0, "kept": kept})
    if not _agreed(call, f"remove {_runs(len(go))}, {format_size(total)}? [y/N] "):
        call.terminal.say("nothing was removed")
        return Answer(status=ExitCode.DONE, record={"removed": [], "bytes": 0, "kept": kept})
    removed = [one for one in go if _removed(call, one)]
    freed = sum(one.size_bytes for one in removed)
    call.terminal.say(f"removed: {_runs(len(removed))}, {format_size(freed)}")
    record = {"removed": [str(one.run.folder.path) for one in removed], "bytes": freed, "kept": kept}
    return Answer(status=ExitCode.DONE if len(removed) == len(go) else ExitCode.BAD_INPUT, record=record)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _is_over(run: Run) -> bool:
    from launcher.history.owner import State

    never_begun = run.submission is not None and run.record is None and run.state == "stopped"  # its job was taken back, or failed
    free = run.ownership.state in (State.ENDED, State.KILLED) or never_begun
    return free and not run.at_work and run.state not in ("elsewhere", "unknown")


def _agreed(call: Call, question: str) -> bool:
    """Raises BadInput where nobody can be asked."""
    if YES in call.flags:
        return True
    if (answer := call.terminal.asked(question)) is None:
        raise BadInput([Fault(key="", where=COMMAND_LINE, found="there is no terminal to ask on", cure=f"{YES} removes without asking.")])
    return answer.strip().lower() in ("y", "yes")


def _removed(call: Call, old: Old) -> bool:
    """Whether it is gone. While it goes this process holds it, so that nobody resumes it meanwhile."""
    from launcher.history import owner

    path = old.run.folder.path
    try:
        with owner.owning(path):
            shutil.rmtree(path)
    except (BadInput, OSError) as kept:
        call.terminal.complain(f"{path} was not removed: {kept}")
        return False
    return True


def _old(run: Run) -> Old:
    size, checkpoint = 0, run.record is not None and run.record.may_name_checkpoints
    for path in _files(run.folder.path):
        size += os.lstat(path).st_size
        checkpoint = checkpoint or path.endswith(_WEIGHTS)
    return Old(run=run, size_bytes=size, checkpoint=checkpoint)


def _files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        yield from (os.path.join(place, name) for name in names)
