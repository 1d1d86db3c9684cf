"""``autofit runs --prune``: removes the folders of runs that are over, after asking.

A run that has written anything but logs and figures stays unless ``--checkpoints`` is said; one that is at work, or may be, always does.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.errors import BadInput, ExitCode, refusal

if TYPE_CHECKING:
    from autofit_launcher.history.runs import Run

_WORTHLESS = re.compile(
    r"\.gitignore|(recipe\.yaml|(owner|record|submission)\.json|command\.sh|series\.jsonl|report\.html|stalled\.\d+\.txt)"
    r"|(slurm|native|trials|held(\.\d+)?)/.*|.*\.(log|png|jpe?g|svg)|(.*/)?(args\.yaml|events\.out\.tfevents\.[^/]*)", re.DOTALL
)  # fmt: skip
"""Files in a run folder that are autofit's own (``history.run_folder``), or a trainer's logs, figures and settings."""


def prune(call: Call, runs: Sequence[Run], root: Path) -> Answer:
    """Lists what would go, asks, and removes it. Raises BadInput where it can't ask and wasn't told."""
    from autofit_launcher.shared.sizes import format_size

    say = call.terminal.say
    over = [run for run in runs if _is_over(run) and run.folder.path.is_relative_to(root.resolve())]  # none that is only linked to
    go = {run.folder.path: _size(run) for run in over if "--checkpoints" in call.flags or not _holds_work(run)}
    for run in over:
        if (path := run.folder.path) in go:
            say(f"{path}  {run.state}  {format_size(go[path])}")
    kept = len(over) - len(go)
    if kept:
        say(f"kept: {_runs(kept)} with checkpoints, or whatever else it has written (--checkpoints removes those, too)")
    if others := len(runs) - len(over):
        say(f"left alone: {_runs(others)} at work, or linked to, or of which nobody here can say that it is over")
    removed: list[Path] = []
    if not go:
        say(f"nothing to remove in {root}")
    elif _agreed(call, f"remove {_runs(len(go))}, {format_size(sum(go.values()))}? [y/N] "):
        removed = [path for path in go if _removed(call, path)]
        say(f"removed: {_runs(len(removed))}, {format_size(sum(go[path] for path in removed))}")
    else:
        say("nothing was removed")
        go = {}
    record = {"removed": list(map(str, removed)), "bytes": sum(go[path] for path in removed), "kept": kept}
    return Answer(status=ExitCode.DONE if len(removed) == len(go) else ExitCode.BAD_INPUT, record=record)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _is_over(run: Run) -> bool:
    from autofit_launcher.history.owner import State

    never_begun = run.submission is not None and run.record is None and run.state == "stopped"  # its job was taken back, or failed
    free = run.owner.state in (State.ENDED, State.KILLED) or never_begun
    return free and not run.at_work and run.state not in ("elsewhere", "unknown")


def _size(run: Run) -> int:
    return sum(path.lstat().st_size for path in run.folder.path.rglob("*") if path.is_symlink() or not path.is_dir())


def _holds_work(run: Run) -> bool:
    """Tells whether it has, or may have, something that a person would miss: anything that isn't known to be worthless."""
    named, folder = run.record is None or any(attempt.left for attempt in run.record.attempts), run.folder.path
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return named or not all(map(_WORTHLESS.fullmatch, files))


def _agreed(call: Call, question: str) -> bool:
    """Raises BadInput where nobody can be asked."""
    if "--yes" in call.flags:
        return True
    if (answer := call.terminal.asked(question)) is None:
        raise refusal("there is no terminal to ask on", "--yes removes without asking.")
    return answer.strip().lower() in ("y", "yes")


def _removed(call: Call, path: Path) -> bool:
    """Removes a run's folder and tells whether it is gone. Meanwhile this process holds it, so that nobody resumes it."""
    from autofit_launcher.history import owner

    try:
        with owner.owning(path):
            shutil.rmtree(path)
    except (BadInput, OSError) as kept:
        call.terminal.complain(f"{path} was not removed: {kept}")
        return False
    return True
