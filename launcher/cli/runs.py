"""The verbs on run folders: runs, watch, stop, resume."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.cli import prune, submit, train
from launcher.cli.call import Answer, Call
from launcher.cli.detach import DETACH, detached
from launcher.errors import COMMAND_LINE, BadInput, ExitCode, Fault, Interrupted
from launcher.shared.activity import doing

if TYPE_CHECKING:
    from launcher.config.recipe import Draft
    from launcher.history.owner import Owner, Ownership
    from launcher.history.runs import Reader, Run
    from launcher.history.submission import Submission

PEAKS = "--peaks"
LOOK_S = 1.0
"""Seconds between two looks at a watched run, which writes a line each second."""
SILENT_S = 600.0
"""Another machine's run that has written nothing for this long is not watched any more: it may have been killed."""
STOP_S = 600.0
"""Seconds to wait for a run that was asked to stop: it may be writing a large checkpoint."""
LAST_WORDS_S = 5.0
"""Seconds to wait for its process after that: what it says of the run's end, into a log say, comes once the run has ended."""


def _word(call: Call, what: str) -> str:
    """The one word that such a verb takes, or nothing. Raises BadInput for more of them, and for what is no path."""
    flag = next((word for word in call.words if word.startswith("-")), None)
    if flag is not None:
        raise BadInput([Fault(key="", where=COMMAND_LINE, found=f"autofit {call.verb} doesn't know {flag}", cure="See autofit --help.")])
    if len(call.words) > 1:
        found = f"autofit {call.verb} takes one {what}, and these are {len(call.words)}: {' '.join(call.words)}"
        raise BadInput([Fault(key="", where=COMMAND_LINE, found=found, cure="Name one.")])
    return call.words[0] if call.words else ""


# ----------------------------------------------------------------------------------------------------------------------
# runs


def runs(call: Call) -> Answer:
    """A line for each run, the newest first."""
    from launcher.history.runs import ROOT, below, run_in

    said = _word(call, "folder")
    if prune.PRUNE not in call.flags and (lone := sorted(call.flags & {prune.CHECKPOINTS, prune.YES})):
        raise BadInput([Fault(key="", where=COMMAND_LINE, found=f"{lone[0]} goes with {prune.PRUNE}", cure=f"autofit runs {prune.PRUNE}.")])
    root = Path(said) if said else ROOT
    if said and not root.is_dir():
        raise BadInput([Fault(key="", where=said, found="it is not a folder", cure="Name the folder that holds the runs (run.root).")])
    with doing("reading the runs"):
        found = sorted((run_in(path, look=submit.look) for path in below(root)), key=lambda run: run.began or 0.0, reverse=True)
    if not found:
        call.terminal.say(f"no run in {root}")
    elif PEAKS in call.flags:
        return _peaks(call, found)
    elif prune.PRUNE in call.flags:
        return prune.prune(call, found, root)
    else:
        call.terminal.board().runs(found)
    return Answer(status=ExitCode.DONE, record={"runs": [run.as_record() for run in found]})


def _peaks(call: Call, found: list[Run]) -> Answer:
    """The pairs that there are: only a run that was seen has a peak to hold against its trial's."""
    pairs = [pair for run in found if (pair := _pair(run)) is not None]
    if pairs:
        call.terminal.board().peaks(pairs)
    else:
        call.terminal.say("no full run here has ended with its memory seen")
    return Answer(status=ExitCode.DONE, record={"peaks": pairs})


def _pair(run: Run) -> dict[str, Any] | None:
    if not run.memory.run_peak_bytes or not run.memory.trial_peak_bytes:
        return None
    sizes = run.memory.model_dump(include={"trial_peak_bytes", "run_peak_bytes", "cap_bytes", "budget_bytes"})
    return {"run": run.name, "recipe": run.recipe, "state": run.state, "rung_index": run.rung_index, "device": run.device, **sizes}


# ----------------------------------------------------------------------------------------------------------------------
# watch


def watch(call: Call) -> Answer:
    """Shows a run until it ends; with --json what it is at now, once. The exit status is the run's own once it has ended."""
    from launcher.history.runs import Reader, find, newest

    said = _word(call, "run")
    path = find(said) if said else newest()
    reader = Reader(path, look=submit.look)
    run = reader.now()
    _refuse_older(run)
    if call.terminal.as_json:
        return Answer(status=ExitCode.DONE, record=run.as_record())
    board = call.terminal.board()
    try:
        with board.live() as show:
            while _worth_watching(run) and call.terminal.is_heard:
                show(run)
                time.sleep(LOOK_S)
                run = reader.now()
    except (KeyboardInterrupt, Interrupted) as stopped:
        board.say(f"no longer watched; the run goes on. `autofit stop {run.folder.path}` would end it")
        status = stopped.exit_code if isinstance(stopped, Interrupted) else ExitCode.DONE
        return Answer(status=status, record=run.as_record())
    if not call.terminal.is_heard:
        return Answer(status=ExitCode.DONE, record=run.as_record())
    board.ended(run)
    if cure := _after(run):
        board.say(f"  {cure}")
    return Answer(status=status_of(run), record=run.as_record())


def _worth_watching(run: Run) -> bool:
    away = run.state == "elsewhere" and run.last_sign is not None and time.time() - run.last_sign < SILENT_S
    return run.at_work or away


def _refuse_older(run: Run) -> None:
    """A run of which nobody can say whether it goes on. One that has ended can be told of, whoever wrote it."""
    if run.state != "unknown":
        return
    found = "its record says that it is under way, but nothing says which process runs it: an older autofit wrote it"
    raise BadInput([Fault(key="", where=str(run.folder.path), found=found, cure=f"See {run.folder.record} and its logs.")])


def _after(run: Run) -> str:
    """What can be done about a run that didn't come to its end."""
    if run.submission is not None and run.record is None:
        return submit.never_begun(run)
    if run.state == "elsewhere" and run.ownership.owner is not None:
        return f"Nothing has come from it for long: it runs on {run.ownership.owner.host}, or was killed there."
    if run.state not in ("killed", "interrupted", "failed", "diverged", "stopped"):
        return ""
    from launcher.history.runs import TORN, how_to_go_on

    if not run.known.attempts and run.goes_on_from != TORN:
        return f"`autofit resume {run.folder.path}` goes on with its trials." if run.state != "failed" else ""
    return how_to_go_on(run.folder.path, run.goes_on_from)


def status_of(run: Run) -> ExitCode:
    """The exit status that the run itself had, or would have had."""
    from launcher.engine.state import Status, exit_code_of

    if run.state in ("killed", "elsewhere"):
        return ExitCode.RUN_FAILED
    if run.state == "fitted":
        return ExitCode.DONE
    return exit_code_of(Status(run.state), ran=bool(run.known.attempts)) if run.state in set(Status) else ExitCode.BAD_INPUT


# ----------------------------------------------------------------------------------------------------------------------
# stop


def stop(call: Call) -> Answer:
    """Asks the process that runs it to stop, waits for its end, and says what happened and how to go on."""
    from launcher.history import owner
    from launcher.history.runs import Reader, find

    said = _word(call, "run")
    if not said:
        raise BadInput([Fault(key="", where=COMMAND_LINE, found="no run is named", cure="autofit stop RUN; `autofit runs` lists them.")])
    reader = Reader(find(said), look=submit.look)
    run = reader.now()
    _refuse_older(run)
    board = call.terminal.board()
    if run.ownership.state is owner.State.RUNNING and run.ownership.owner is not None:
        _ask(run, run.ownership.owner)
        board.say(f"{run.name}: asked process {run.ownership.owner.pid} to stop; it ends its trainer, and writes its record")
        with doing("waiting for its end"):
            run = _awaited(reader)
            _hear_out(run.ownership)
    elif run.submission is not None and run.seen is not None and run.seen.is_there:
        submit.stop(run.submission, run.seen)
        done = "took SLURM's job back" if run.seen.waits else "asked SLURM's job to stop"
        board.say(f"{run.name}: {done}: {run.submission.job}")
        with doing("waiting for its end"):
            run = _awaited(reader)
    elif run.state == "elsewhere":
        raise BadInput([owner.refusal(run.folder.path, run.ownership)])
    else:
        board.say(f"{run.name}: nothing runs it, there is nothing to stop")
    if run.at_work:
        board.say(f"it is still at it after {STOP_S:.0f} s; `autofit watch {run.folder.path}` shows it", style="red")
        return Answer(status=ExitCode.RUN_FAILED, record=run.as_record())
    board.ended(run)
    if cure := _after(run):
        board.say(f"  {cure}")
    return Answer(status=ExitCode.DONE, record=run.as_record())


def _ask(run: Run, owner: Owner) -> None:
    """SIGTERM to that very process. Raises BadInput where it isn't ours to signal."""
    from launcher.machine import process

    where = str(run.folder.path)
    if owner.host != socket.gethostname():
        found = f"process {owner.pid} of another container of this machine ({owner.host}) runs it"
        raise BadInput([Fault(key="", where=where, found=found, cure=f"Say autofit stop in {owner.host}.")])
    try:
        process.ask_to_end(owner.pid, started=owner.started)
    except PermissionError as error:
        found = f"process {owner.pid} belongs to another user"
        raise BadInput([Fault(key="", where=where, found=found, cure="Its user, or root, can stop it.")]) from error


def _hear_out(ended: Ownership) -> None:
    """Waits until the process that gave the folder back is gone: at most ``LAST_WORDS_S``, for it may go on with something else."""
    from launcher.history import owner

    until = time.monotonic() + LAST_WORDS_S
    while ended.owner is not None and owner.alive(ended.owner) and time.monotonic() < until:
        time.sleep(0.05)


def _awaited(reader: Reader) -> Run:
    """The run once it has ended; as it is, after ``STOP_S``."""
    until = time.monotonic() + STOP_S
    while (run := reader.now()).at_work and time.monotonic() < until:
        time.sleep(0.2)
    return run


# ----------------------------------------------------------------------------------------------------------------------
# resume


def resume(call: Call) -> Answer:
    """Goes on with a run that was interrupted, or failed. One that is done stays as it is."""
    from launcher.history.runs import find, newest

    if call.words and not call.words[0]:  # "$RUN" of a shell where RUN isn't set
        raise BadInput([Fault(key="", where=COMMAND_LINE, found="no run is named", cure="autofit resume RUN; `autofit runs` lists them.")])
    named = bool(call.words) and "=" not in call.words[0]
    folder = find(call.words[0]) if named else newest()
    words = call.words[1:] if named else call.words
    if DETACH in call.flags:
        return detached(replace(call, words=(str(folder), *words)))
    from launcher.engine import resumption

    if not named:
        call.terminal.say(f"the newest run: {folder}")
    handed = submit.refuse_while_queued(folder)
    if handed is not None and not (folder / "record.json").exists():
        return _begun(call, folder, resumption.draft_of(folder, words), handed)
    return train.go_on(resumption.resumable(folder, words), call.terminal)


def _begun(call: Call, folder: Path, draft: Draft, handed: Submission) -> Answer:
    """A launch that was handed to SLURM, and that nobody has begun yet: here, which is in its job, or in a new job."""
    from launcher.history.run_folder import RunFolder

    if submit.is_wanted(draft):
        return submit.again(folder, draft, call.terminal, fit_only=handed.fit_only)
    os.chdir(handed.cwd)
    body = train.fit_draft if handed.fit_only else train.train_draft
    return body(draft, call.terminal, folder=RunFolder(folder))
