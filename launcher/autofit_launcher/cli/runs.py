"""The verbs on what launches have left: runs, watch, stop; fits."""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autofit_launcher.cli import runs_view, submit
from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.common.activity import doing
from autofit_launcher.common.sizes import format_size
from autofit_launcher.errors import BadInput, ExitCode, Interrupted, refusal
from autofit_launcher.history import kept_fits, owner
from autofit_launcher.history.owner import NAME, Owner
from autofit_launcher.history.runs import ROOT, Reader, Run, below, find, how_to_go_on, newest, run_in
from autofit_launcher.machine import process
from autofit_launcher.paths import typed

LOOK_S = 1.0
"""Seconds between two looks at a watched run, which writes a line each second."""
SILENT_S = 600.0
"""Seconds without a word after which another machine's run is not watched any more: it may have been killed."""
STOP_S = 600.0
"""Seconds to wait for a run that was asked to stop: it may be writing a large checkpoint."""
LAST_WORDS_S = 5.0
"""Seconds to wait for its process after that: what it says of the run's end, into a log say, comes once the run has ended."""


def runs(call: Call) -> Answer:
    said = call.word("folder")
    if "--prune" not in call.flags and (lone := sorted({"--checkpoints", "--yes"} & call.flags.keys())):
        raise refusal(f"{lone[0]} goes with --prune", "autofit runs --prune.")
    root = Path(said) if said else ROOT
    if said and not root.is_dir():
        raise refusal("it is not a folder", "Name the folder that holds the runs (run.root).", where=said)
    with doing("reading the runs"):
        found = sorted((run_in(path, look=submit.job_seen) for path in below(root)), key=lambda run: run.began or 0.0, reverse=True)
    if not found:
        call.terminal.say(f"no run in {root}")
    elif "--peaks" in call.flags:
        return Answer(status=ExitCode.DONE, record={"peaks": runs_view.peaks(call.terminal.console, found)})
    elif "--prune" in call.flags:
        return _pruned(call, found, root)
    else:
        runs_view.runs(call.terminal.console, found)
    return Answer(status=ExitCode.DONE, record={"runs": [run.as_record() for run in found]})


_WORTHLESS = re.compile(
    r"\.gitignore|(recipe(\.asked)?\.yaml|(owner|record|submission)\.json|command\.sh|series\.jsonl|report\.html|stalled\.\d+\.txt)"
    r"|(slurm|native|trials|held(\.\d+)?)/.*|.*\.(log|png|jpe?g|svg)|(.*/)?(args\.yaml|events\.out\.tfevents\.[^/]*)", re.DOTALL
)  # fmt: skip
"""Files in a run folder that are autofit's own (``history.run_folder``), or a trainer's logs, figures and settings."""


def _pruned(call: Call, runs: Sequence[Run], root: Path) -> Answer:
    """Lists what would go, asks, and removes it. Raises BadInput where it can't ask and wasn't told.

    A run that has written anything but logs and figures stays unless ``--checkpoints`` is said; one that is at work, or may be, always.
    """
    say = call.terminal.say
    over = [run for run in runs if _is_over(run) and run.folder.path.is_relative_to(root.resolve())]  # none that is only linked to
    go = {run.folder.path: _size(run) for run in over if not _is_kept(call, run)}
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
    never_begun = run.submission is not None and run.record is None and run.state == "stopped"  # its job was taken back, or failed
    free = run.owner.state in (owner.State.ENDED, owner.State.KILLED) or never_begun
    return free and not run.at_work and run.state not in ("elsewhere", "unknown")


def _size(run: Run) -> int:
    return sum(path.lstat().st_size for path in run.folder.path.rglob("*") if path.is_symlink() or not path.is_dir())


def _is_kept(call: Call, run: Run) -> bool:
    """Tells whether it has, or may have, something that a person would miss: anything that isn't known to be worthless."""
    told, folder = run.folder.record.exists() if run.record is None else any(one.left for one in run.record.attempts), run.folder.path
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return "--checkpoints" not in call.flags and (told or not all(map(_WORTHLESS.fullmatch, files)))


def _agreed(call: Call, question: str) -> bool:
    """Raises BadInput where nobody can be asked."""
    if "--yes" in call.flags:
        return True
    if (answer := call.terminal.asked(question)) is None:
        raise refusal("there is no terminal to ask on", "--yes removes without asking.")
    return answer.strip().lower() in ("y", "yes")


def _removed(call: Call, path: Path) -> bool:
    """Removes a run's folder and tells whether it is gone. Meanwhile this process holds it, so that nobody resumes it."""
    try:
        with owner.owning(path):
            if _is_kept(call, run_in(path)):
                raise refusal("it has written something since", "Say autofit runs --prune again.")
            shutil.rmtree(path)
    except (BadInput, OSError) as kept:
        call.terminal.complain(f"{path} was not removed: {kept}")
        return False
    return True


def watch(call: Call) -> Answer:
    """Shows a run until it ends; with --json what it is at now, once."""
    said = call.word("run")
    reader = Reader(find(said) if said else newest(), look=submit.job_seen)
    run = reader.now()
    if call.terminal.as_json:
        return Answer(status=ExitCode.DONE, record=run.as_record())
    try:
        with runs_view.live(call.terminal.console) as show:
            while _worth_watching(run) and call.terminal.is_heard:
                show(run)
                time.sleep(LOOK_S)
                run = reader.now()
    except (KeyboardInterrupt, Interrupted) as stopped:
        call.terminal.say(f"no longer watched; the run goes on. `{typed('stop', run.folder.path)}` would end it")
        status = stopped.exit_code if isinstance(stopped, Interrupted) else ExitCode.DONE
        return Answer(status=status, record=run.as_record())
    if not call.terminal.is_heard:
        return Answer(status=ExitCode.DONE, record=run.as_record())
    return _ended(call, run, status=submit.status_of(run))


def _worth_watching(run: Run) -> bool:
    away = run.state == "elsewhere" and run.last_sign is not None and time.time() - run.last_sign < SILENT_S
    return run.at_work or away


def _ended(call: Call, run: Run, *, status: ExitCode) -> Answer:
    """Says how it ended, and what can be done about that."""
    runs_view.ended(call.terminal.console, run)
    if cure := _after(run):
        call.terminal.say(f"  {cure}")
    return Answer(status=status, record=run.as_record())


def _after(run: Run) -> str:
    """Tells what can be done about a run that didn't come to its end."""
    if run.submission is not None and run.record is None:
        return submit.never_begun(run)
    if run.state == "elsewhere":
        return f"Nothing has come from it for long: it runs on {run.owner.host}, or was killed there."
    if run.state not in ("killed", "interrupted", "failed", "diverged", "stopped"):
        return ""

    return how_to_go_on(run.folder.path) if run.record is not None else ""


def stop(call: Call) -> Answer:
    """Asks the process that runs it to stop, waits for its end, and says what happened."""
    reader = Reader(find(call.word("run") or call.unnamed()), look=submit.job_seen)
    run = reader.now()
    if run.owner.state is owner.State.RUNNING:
        _ask(run, run.owner)
        asked = f"asked process {run.owner.pid} to stop; it ends its trainer, and writes its record"
    elif run.submission is not None and run.seen is not None and run.seen.is_there:
        submit.stop(run.folder.path, run.submission, run.seen)
        done = "took SLURM's job back" if run.seen.waits else "asked SLURM's job to stop"
        asked = f"{done}: {run.submission.job}"
    elif run.state == "elsewhere":
        raise BadInput([owner.refusal(run.folder.path, run.owner)])
    else:
        call.terminal.say(f"{run.name}: no process here is known to run it, there is nothing to stop")
        return _ended(call, run, status=ExitCode.DONE)
    call.terminal.say(f"{run.name}: {asked}")
    with doing("waiting for its end"):
        run = _awaited(reader)
        _hear_out(run.owner)
    if run.at_work:
        call.terminal.say(f"it is still at it after {STOP_S:.0f} s; `{typed('watch', run.folder.path)}` shows it")
        return Answer(status=ExitCode.RUN_FAILED, record=run.as_record())
    return _ended(call, run, status=ExitCode.DONE)


def _ask(run: Run, owner: Owner) -> None:
    """Sends SIGTERM to that very process. Raises BadInput where it isn't ours to signal."""
    where = str(run.folder.path)
    if owner.host != socket.gethostname():
        found = f"process {owner.pid} of another container of this machine ({owner.host}) runs it"
        raise refusal(found, f"Say autofit stop in {owner.host}.", where=where)
    try:
        if not process.ask_to_end(owner.pid, holding=f"{where}/{NAME}"):
            raise refusal(f"process {owner.pid} doesn't hold it, though its {NAME} says so", "Nothing was signalled.", where=where)
    except PermissionError as error:
        raise refusal(f"process {owner.pid} belongs to another user", "Its user, or root, can stop it.", where=where) from error


def _hear_out(ended: Owner) -> None:
    """Waits until the process that gave the folder back is gone: at most ``LAST_WORDS_S``, for it may go on with something else."""
    with suppress(OSError):
        handle = os.pidfd_open(ended.pid)
        select.select([handle], [], [], LAST_WORDS_S)
        os.close(handle)


def _awaited(reader: Reader) -> Run:
    """Waits until the run has ended, at most ``STOP_S`` seconds, and returns it as it is then."""
    until = time.monotonic() + STOP_S
    while (run := reader.now()).at_work and time.monotonic() < until:
        time.sleep(0.2)
    return run


def fits(call: Call) -> Answer:
    """Shows the fits that are kept, the newest first, and those that a run has disproved."""
    if "--forget" in call.flags:
        return _forgotten(call, call.flags["--forget"])
    known = kept_fits.everything()
    kept = sorted(((one, one.fit) for one in known if one.fit is not None), key=lambda pair: pair[1].made, reverse=True)
    failures = sorted(((one, failure) for one in known for failure in one.failures), key=lambda pair: pair[1].at, reverse=True)
    if kept or failures:
        runs_view.fits(call.terminal.console, kept, failures)
    else:
        call.terminal.say(f"no fit is kept in {kept_fits.folder()}")
    listed = [
        {"id": one.id, "training": one.training, "rung": fit.chosen.rung, "peak_bytes": fit.chosen.peak_bytes, "trials": len(fit.trials),
         **fit.model_dump(exclude={"trials", "reports", "same"})}
        for one, fit in kept
    ]  # fmt: skip
    disproved = [{"training": one.training, **failure.model_dump()} for one, failure in failures]
    return Answer(status=ExitCode.DONE, record={"fits": listed, "disproved": disproved})


def _forgotten(call: Call, said: str) -> Answer:
    """Forgets one fit, or all; what runs have disproved stays known."""
    forgotten = kept_fits.forget("" if said == "all" else said or "none")
    if not forgotten and said != "all":
        raise refusal(f"there is no fit {said}", "`autofit fits` names them; --forget all forgets every one.")
    call.terminal.say(f"forgotten: {forgotten} fit{'' if forgotten == 1 else 's'}; the same launches make their trials again")
    return Answer(status=ExitCode.DONE, record={"forgotten": forgotten})
