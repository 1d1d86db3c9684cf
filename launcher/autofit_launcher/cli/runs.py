"""The verbs on what launches have left: runs, watch, stop; fits; and how runs are shown, from their folders alone."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from autofit_launcher.cli import submit
from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.cli.say import say, table
from autofit_launcher.common.activity import doing
from autofit_launcher.common.sizes import format_duration, format_number, format_size
from autofit_launcher.errors import BadInput, ExitCode, Interrupted, refusal
from autofit_launcher.history import kept_fits, owner
from autofit_launcher.history.kept_fits import KeptFit, KnownFits, RunFailure, day
from autofit_launcher.history.owner import NAME, Owner
from autofit_launcher.history.records import MemoryRecord
from autofit_launcher.history.runs import QUEUED, ROOT, Run, below, find, how_to_go_on, newest, run_in
from autofit_launcher.ladder import rungs
from autofit_launcher.machine import process
from autofit_launcher.page import page
from autofit_launcher.paths import typed

LOOK_S = 1.0
"""Seconds between two looks at a watched run, which writes a line each second."""
NEWS_S = 10.0
"""Seconds between two lines of a watched run where nothing of note happens."""
SILENT_S = 600.0
"""Seconds without a word after which another machine's run is not watched any more: it may have been killed."""
STOP_S = 600.0
"""Seconds to wait for a run that was asked to stop: it may be writing a large checkpoint."""


def runs(call: Call) -> Answer:
    said = call.word("folder")
    root = Path(said) if said else ROOT
    if said and not root.is_dir():
        raise refusal("it is not a folder", "Name the folder that holds the runs (run.root).", where=said)
    with doing("reading the runs"):
        found = sorted((run_in(path, look=submit.job_seen) for path in below(root)), key=lambda run: run.began or 0.0, reverse=True)
    if not found:
        call.terminal.say(f"no run in {root}")
    elif "--peaks" in call.flags:
        return Answer(status=ExitCode.DONE, record={"peaks": _peaks(call.terminal.console, found)})
    elif "--prune" in call.flags:
        return _pruned(call, found, root)
    else:
        _listed(call.terminal.console, found)
    return Answer(status=ExitCode.DONE, record={"runs": [run.as_record() for run in found]})


_WORTHLESS = re.compile(
    r"\.gitignore|(recipe(\.asked)?\.yaml|(owner|record|submission)\.json|command\.sh|series\.jsonl|report\.html|stalled\.\d+\.txt)"
    r"|(slurm|native|trials|held(\.\d+)?)/.*|.*\.(log|png|jpe?g|svg)|(.*/)?(args\.yaml|events\.out\.tfevents\.[^/]*)", re.DOTALL
)  # fmt: skip
"""Files in a run folder that are autofit's own (``history.run_folder``), or a trainer's logs, figures and settings."""


def _pruned(call: Call, runs: Sequence[Run], root: Path) -> Answer:
    """Lists what would go, and with ``--yes`` removes it.

    A run that has written anything but logs and figures stays unless ``--checkpoints`` is said; one that is at work, or may be, always.
    """
    tell = call.terminal.say
    over = [run for run in runs if _is_over(run) and run.folder.path.is_relative_to(root.resolve())]  # none that is only linked to
    go = {run.folder.path: _size(run) for run in over if not _is_kept(call, run)}
    tell(*(f"{path}  {format_size(size)}" for path, size in go.items()))
    tell(f"kept, with checkpoints, or whatever else it has written (--checkpoints removes those, too): {len(over) - len(go)}")
    tell(f"left alone, at work, or linked to, or of which nobody here can say that it is over: {len(runs) - len(over)}")
    removed = [path for path in go if "--yes" in call.flags and _removed(call, path)]
    freed = sum(go[path] for path in removed)
    tell(f"removed: {len(removed)}, {format_size(freed)}{'' if removed or not go else '; --yes removes what is listed'}")
    record = {"removed": list(map(str, removed)), "bytes": freed, "kept": len(over) - len(go)}
    return Answer(status=ExitCode.BAD_INPUT if "--yes" in call.flags and len(removed) < len(go) else ExitCode.DONE, record=record)


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


def _removed(call: Call, path: Path) -> bool:
    """Removes a run's folder and tells whether it is gone. Meanwhile this process holds it, so that nobody resumes it."""
    try:
        with owner.owning(path):
            shutil.rmtree(path)
    except (BadInput, OSError) as kept:
        call.terminal.complain(f"{path} was not removed: {kept}")
        return False
    return True


def watch(call: Call) -> Answer:
    """Says a line of a run where something has happened or some time has gone, until it ends; with --json what it is at now, once."""
    said, known, at = call.word("run"), tuple[object, ...](), 0.0
    path = find(said) if said else newest()
    run = run_in(path, look=submit.job_seen)
    if call.terminal.as_json:
        return Answer(status=ExitCode.DONE, record=run.as_record())
    try:
        while _worth_watching(run) and call.terminal.is_heard:
            about = (run.state, run.rung_index, run.tried, run.attempt)
            if about != known or time.monotonic() - at >= NEWS_S:
                known, at = about, time.monotonic()
                call.terminal.say(line(run))
            time.sleep(LOOK_S)
            run = run_in(path, look=submit.job_seen)
    except (KeyboardInterrupt, Interrupted) as stopped:
        call.terminal.say(f"no longer watched; the run goes on. `{typed('stop', run.folder.path)}` would end it")
        status = stopped.exit_code if isinstance(stopped, Interrupted) else ExitCode.DONE
        return Answer(status=status, record=run.as_record())
    return _ended(call, run, status=submit.status_of(run) if call.terminal.is_heard else ExitCode.DONE)


def _worth_watching(run: Run) -> bool:
    away = run.state == "elsewhere" and run.last_sign is not None and time.time() - run.last_sign < SILENT_S
    return run.at_work or away


def _ended(call: Call, run: Run, *, status: ExitCode) -> Answer:
    """Says how it ended, and what can be done about that."""
    console = call.terminal.console
    progress = f"  {_progress(run)}" if run.lines or run.state == "done" else ""
    say(console, Text.assemble(f"{run.name}: ", (page.spaced(run.state), _colour(run)), progress))
    if run.peak_bytes and run.budget_bytes:
        beside = f", its trial {format_size(run.trial_peak_bytes)}" if run.memory.ratio is not None else ""
        say(console, f"  peak {format_size(run.peak_bytes)} of {format_size(run.budget_bytes)}{beside}")
    say(console, f"  {run.folder.path}")
    if run.submission is not None and run.record is None:
        call.terminal.say(f"  {submit.never_begun(run)}")
    elif run.state == "elsewhere":
        call.terminal.say(f"  Nothing has come from it for long: it runs on {run.owner.host}, or was killed there.")
    elif run.record is not None and run.state in ("killed", "interrupted", "failed", "diverged", "stopped"):
        call.terminal.say(f"  {how_to_go_on(run.folder.path)}")
    return Answer(status=status, record=run.as_record())


def stop(call: Call) -> Answer:
    """Asks the process that runs it to stop, waits for its end, and says what happened."""
    run = run_in(find(call.word("run", needed=True)), look=submit.job_seen)
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
    until = time.monotonic() + STOP_S
    with doing("waiting for its end"):
        while (run := run_in(run.folder.path, look=submit.job_seen)).at_work and time.monotonic() < until:
            time.sleep(0.2)
    if run.at_work:
        call.terminal.say(f"it is still at it after {STOP_S:.0f} s; `{typed('watch', run.folder.path)}` shows it")
        return Answer(status=ExitCode.RUN_FAILED, record=run.as_record())
    return _ended(call, run, status=ExitCode.DONE)


def _ask(run: Run, owner: Owner) -> None:
    """Sends SIGTERM to that very process. Raises BadInput where it isn't ours to signal."""
    where = str(run.folder.path)
    try:
        if not process.ask_to_end(owner.pid, holding=f"{where}/{NAME}"):
            found = f"process {owner.pid} doesn't hold it here ({owner.host}), though its {NAME} says so"
            raise refusal(found, "Nothing was signalled.", where=where)
    except PermissionError as error:
        raise refusal(f"process {owner.pid} belongs to another user", "Its user, or root, can stop it.", where=where) from error


def fits(call: Call) -> Answer:
    """Shows the fits that are kept, the newest first, and those that a run has disproved; or forgets one, or all: what runs have disproved
    stays known."""
    call.named("word", most=0)
    if (said := call.flags.get("--forget")) is not None:
        forgotten = kept_fits.forget("" if said == "all" else said or "none")
        if not forgotten and said != "all":
            raise refusal(f"there is no fit {said}", "`autofit fits` names them; --forget all forgets every one.")
        call.terminal.say(f"forgotten: {forgotten}; the same launches make their trials again")
        return Answer(status=ExitCode.DONE, record={"forgotten": forgotten})
    known = kept_fits.everything()
    kept = sorted(((one, one.fit) for one in known if one.fit is not None), key=lambda pair: pair[1].made, reverse=True)
    failures = sorted(((one, failure) for one in known for failure in one.failures), key=lambda pair: pair[1].at, reverse=True)
    _fits(call.terminal.console, kept, failures)
    call.terminal.say(f"{len(kept) or 'no fit is'} kept in {kept_fits.folder()}")
    listed = [
        {"id": one.id, "training": one.training, "rung": fit.chosen.rung, "peak_bytes": fit.chosen.peak_bytes, "trials": len(fit.trials),
         **fit.model_dump(exclude={"trials", "reports", "same"})}
        for one, fit in kept
    ]  # fmt: skip
    disproved = [{"training": one.training, **failure.model_dump()} for one, failure in failures]
    return Answer(status=ExitCode.DONE, record={"fits": listed, "disproved": disproved})


def _listed(console: Console, found: Sequence[Run]) -> None:
    """Shows one line for each run."""
    rows: list[dict[str, str | Text]] = []
    for run in found:
        beside = run.owner.host if run.state == "elsewhere" else _job(run) if run.state in QUEUED else ""
        state = Text(page.spaced(run.state) + (f" ({beside})" if beside else ""), style=_colour(run))
        rows.append({"run": Text(run.name, style="bold"), "state": state, "rung": _rung(run), "progress": _progress(run)})
        age = format_duration(time.time() - run.began) if run.began else "-"
        rows[-1] |= {"peak": page.size(run.peak_bytes), "budget": page.size(run.budget_bytes), "age": age}
    table(console, rows, left=("run", "state", "rung", "progress"))


def _peaks(console: Console, found: Sequence[Run]) -> list[dict[str, Any]]:
    """Shows each full run's peak beside its trial's, and returns them: only a run that was seen has any."""
    seen = [run for run in found if run.memory.ratio is not None]
    _listed(console, seen)
    pairs = []
    for run in seen:
        memory = run.memory
        of = {"run": run.name, "recipe": run.recipe, "state": run.state, "rung_index": run.rung_index, "device": run.device}
        pairs.append(of | memory.model_dump(include=set(MemoryRecord.model_fields)))
        say(console, f"{run.name}: {memory.ratio:.1%} of its trial's {page.size(memory.trial_peak_bytes)}, cap {page.size(run.cap_bytes)}")
    return pairs


def _fits(console: Console, kept: Sequence[tuple[KnownFits, KeptFit]], failures: Sequence[tuple[KnownFits, RunFailure]]) -> None:
    """Shows fits that stand for the trials of a launch, and those that a run has shown to be wrong."""
    rows = [
        {"fit": known.id, "of": known.training, "rung": f"{fit.rung_index}: {rungs.words(fit.chosen.rung)}",
         "device": known.depends_on.get("device", ""), "peak": format_size(fit.chosen.peak_bytes), "holds at caps": fit.caps,
         "made": day(fit.made)}
        for known, fit in kept
    ]  # fmt: skip
    table(console, rows, left=("fit", "of", "rung", "device"))
    for known, wrong in failures:
        words = f"disproved on {day(wrong.at)}: {known.training}, rung {wrong.rung_index}, in {wrong.run_dir}: {wrong.why}"
        say(console, words, style="yellow")


def line(run: Run) -> str:
    """A run at work in one line: everything that is known of it."""
    return "  ".join([page.spaced(run.state), *(said for said in _told(run) if said)])


def _told(run: Run) -> Iterator[str]:
    told, left = run.last, run.seconds_left
    yield f"SLURM {_job(run)}" if run.submission is not None else ""
    yield f"waiting: the card is taken: {run.waits_for}" if run.waits_for else ""
    if run.state == "running":
        yield f"rung {_rung(run)}" + (f"  (attempt {run.attempt})" if run.attempt > 1 else "")
        yield _progress(run)
        yield f"loss {told['loss']}" if "loss" in told else ""
        if told.get("used_bytes") or run.peak_bytes:
            yield f"memory {page.size(told.get('used_bytes'))} of {page.size(run.budget_bytes)} (peak {page.size(run.peak_bytes)})"
        yield f"about {format_duration(left)} left" if left is not None else ""
        yield run.remark
    elif run.state not in QUEUED:
        yield f"trial {run.tried + 1}: rung {_rung(run)}  {run.phase}" if run.phase else "between two trials" if run.tried else ""


def _job(run: Run) -> str:
    """The SLURM job that it was handed to, and why that waits."""
    waits = f": {run.seen.reason}" if run.seen is not None and run.seen.waits and run.seen.reason else ""
    return f"job {run.submission.job}{waits}" if run.submission is not None else ""


def _colour(run: Run) -> str:
    return "green" if run.state in ("done", "fitted") else "cyan" if run.at_work else "yellow"


def _rung(run: Run) -> str:
    return f"{run.rung_index}: {rungs.words(run.rung)}" if run.rung_index is not None else "-"


def _progress(run: Run) -> str:
    told = run.last
    parts = [
        f"{one} {format_number(told[one])}" + (f"/{format_number(told[of])}" if told.get(of) else "")
        for one, of in (("epoch", "epochs"), ("step", "steps"))
        if told.get(one) is not None
    ]
    done = 1.0 if run.state == "done" else told.get("done")
    return "  ".join([*parts, *([f"{done:.0%}"] if done is not None else [])]) or "-"
