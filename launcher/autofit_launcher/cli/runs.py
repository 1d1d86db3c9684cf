"""The verbs on run folders: runs, watch, stop, resume."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autofit_launcher.cli import prune, submit, train
from autofit_launcher.cli.call import Answer, Call, Takes, verb
from autofit_launcher.cli.detach import DETACH, detached
from autofit_launcher.errors import BadInput, ExitCode, Interrupted, refusal
from autofit_launcher.shared.activity import doing

if TYPE_CHECKING:
    from autofit_launcher.config.recipe import Draft
    from autofit_launcher.history.owner import Owner
    from autofit_launcher.history.runs import Reader, Run
    from autofit_launcher.history.submission import Submission

LOOK_S = 1.0
"""Seconds between two looks at a watched run, which writes a line each second."""
SILENT_S = 600.0
"""Seconds without a word after which another machine's run is not watched any more: it may have been killed."""
STOP_S = 600.0
"""Seconds to wait for a run that was asked to stop: it may be writing a large checkpoint."""
LAST_WORDS_S = 5.0
"""Seconds to wait for its process after that: what it says of the run's end, into a log say, comes once the run has ended."""


# ----------------------------------------------------------------------------------------------------------------------
# runs


@verb(
    "[--peaks | --prune] [FOLDER]",
    "every launch: its state, rung, progress, peak, age",
    Takes.NAME,
    flags={
        "--peaks": "each full run's peak beside its trial's",
        "--prune": "remove runs that are over: lists them and asks; what holds a checkpoint stays",
        "--checkpoints": "(--prune) those with checkpoints, too",
        "--yes": "(--prune) without asking",
    },
    examples=("autofit runs", "autofit runs --prune --yes"),
)
def runs(call: Call) -> Answer:
    from autofit_launcher.cli import runs_view
    from autofit_launcher.history.runs import ROOT, below, run_in

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
        return prune.prune(call, found, root)
    else:
        runs_view.runs(call.terminal.console, found)
    return Answer(status=ExitCode.DONE, record={"runs": [run.as_record() for run in found]})


# ----------------------------------------------------------------------------------------------------------------------
# watch


@verb("[RUN]", "one live, from another terminal, until it ends", Takes.NAME, more="The newest by itself. Its exit status is the run's.")
def watch(call: Call) -> Answer:
    """Shows a run until it ends; with --json what it is at now, once."""
    from autofit_launcher.cli import runs_view
    from autofit_launcher.history.runs import Reader, find, newest

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
        call.terminal.say(f"no longer watched; the run goes on. `autofit stop {run.folder.path}` would end it")
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
    from autofit_launcher.cli import runs_view

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
    from autofit_launcher.history.runs import how_to_go_on

    return how_to_go_on(run.folder.path) if run.record is not None else ""


# ----------------------------------------------------------------------------------------------------------------------
# stop


@verb("RUN", "end one, its checkpoint kept, and say how to go on", Takes.NAME)
def stop(call: Call) -> Answer:
    """Asks the process that runs it to stop, waits for its end, and says what happened."""
    from autofit_launcher.history import owner
    from autofit_launcher.history.runs import Reader, find

    reader = Reader(find(_named(call.word("run"), "stop")), look=submit.job_seen)
    run = reader.now()
    if run.owner.state is owner.State.RUNNING:
        _ask(run, run.owner)
        asked = f"asked process {run.owner.pid} to stop; it ends its trainer, and writes its record"
    elif run.submission is not None and run.seen is not None and run.seen.is_there:
        submit.stop(run.submission, run.seen)
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
        call.terminal.say(f"it is still at it after {STOP_S:.0f} s; `autofit watch {run.folder.path}` shows it")
        return Answer(status=ExitCode.RUN_FAILED, record=run.as_record())
    return _ended(call, run, status=ExitCode.DONE)


def _named(said: str, verb: str) -> str:
    if not said:  # "$RUN" of a shell where RUN isn't set, too
        raise refusal("no run is named", f"autofit {verb} RUN; `autofit runs` lists them.")
    return said


def _ask(run: Run, owner: Owner) -> None:
    """Sends SIGTERM to that very process. Raises BadInput where it isn't ours to signal."""
    from autofit_launcher.machine import process

    where = str(run.folder.path)
    if owner.host != socket.gethostname():
        found = f"process {owner.pid} of another container of this machine ({owner.host}) runs it"
        raise refusal(found, f"Say autofit stop in {owner.host}.", where=where)
    try:
        process.ask_to_end(owner.pid, started=owner.started)
    except PermissionError as error:
        raise refusal(f"process {owner.pid} belongs to another user", "Its user, or root, can stop it.", where=where) from error


def _hear_out(ended: Owner) -> None:
    """Waits until the process that gave the folder back is gone: at most ``LAST_WORDS_S``, for it may go on with something else."""
    from autofit_launcher.history import owner

    until = time.monotonic() + LAST_WORDS_S
    while ended.pid and owner.alive(ended) and time.monotonic() < until:
        time.sleep(0.05)


def _awaited(reader: Reader) -> Run:
    """Waits until the run has ended, at most ``STOP_S`` seconds, and returns it as it is then."""
    until = time.monotonic() + STOP_S
    while (run := reader.now()).at_work and time.monotonic() < until:
        time.sleep(0.2)
    return run


# ----------------------------------------------------------------------------------------------------------------------
# resume


@verb(
    "[RUN] [recover.KEY=VALUE ...]",
    "go on with a run that was interrupted or failed",
    Takes.NAME,
    flags=DETACH,
    more="From its last whole checkpoint, or with its trials where no rung had been found. Without RUN, the newest.",
    examples=("autofit resume yolo_demo-20261122-101500", "autofit resume RUN recover.on_nan=roll_back"),
    keys="recover.",
)
def resume(call: Call) -> Answer:
    from autofit_launcher.history.runs import find, newest

    named = bool(call.words) and "=" not in call.words[0]
    folder = find(_named(call.words[0], "resume")) if named else newest()
    words = call.words[1:] if named else call.words
    if "--detach" in call.flags:
        return detached(replace(call, words=(str(folder), *words)))
    from autofit_launcher.engine import prepare

    if not named:
        call.terminal.say(f"the newest run: {folder}")
    handed = submit.refuse_while_queued(folder)
    if handed is not None and not (folder / "record.json").exists():
        return _begun(call, folder, prepare.draft_of(folder, words), handed)
    return train.go_on(prepare.resumable(folder, words), call.terminal)


def _begun(call: Call, folder: Path, draft: Draft, handed: Submission) -> Answer:
    """Begins a launch that was handed to SLURM and that nobody has begun yet: here, which is in its job, or in a new job."""
    from autofit_launcher.history.run_folder import RunFolder

    if submit.is_wanted(draft):
        return submit.again(folder, draft, call.terminal, fit_only=handed.fit_only)
    os.chdir(handed.cwd)
    return train.launch(draft, call.terminal, fit_only=handed.fit_only, folder=RunFolder(folder))
