"""``launch=slurm``: hands a launch to SLURM as one job, in which autofit does the same as it would here, and returns at once.

What the job runs is ``autofit resume`` of the launch's folder, made here: the first start begins the launch there, every later one (after
preemption, a requeue or the time limit) goes on with it at the same rung.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from autofit_launcher.cli.call import Answer
from autofit_launcher.cli.say import Terminal
from autofit_launcher.common.activity import doing
from autofit_launcher.common.files import written_at
from autofit_launcher.config.recipe import Draft, as_yaml
from autofit_launcher.config.schema import Recipe
from autofit_launcher.errors import BadInput, ExitCode, Fault, refusal
from autofit_launcher.history import owner, submission
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.runs import Run, below, run_in
from autofit_launcher.history.submission import WORDS, JobSeen, Submission
from autofit_launcher.machine import process, slurm
from autofit_launcher.paths import typed

HERE = "launch.kind=here"
ASK_S = 5.0
"""Seconds between two questions to SLURM for the same job."""
_SEEN: dict[Submission, tuple[float, JobSeen | None]] = {}


def is_wanted(draft: Draft) -> bool:
    return draft.recipe is not None and draft.recipe.launch.kind == "slurm"


def hand_in(draft: Draft, terminal: Terminal, *, fit_only: bool, folder: Path | None = None) -> Answer:
    """Hands in a new launch, in a folder of its own, of which there is none if SLURM doesn't take its job; or a new job for the launch in
    ``folder``, which was interrupted or has failed."""
    from autofit_launcher.engine import prepare

    faults = _faults(draft.needed())
    if folder is not None and faults:
        raise BadInput(draft.provenance.placed(faults))
    prepare.refuse_a_rung(draft)
    place = folder or prepare.enter(draft, *faults).path
    try:
        return _handed_in(place, draft, terminal, fit_only=fit_only)
    except BaseException:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        raise


def _faults(recipe: Recipe) -> list[Fault]:
    """Faults of SLURM here, and of so many cards."""
    device, found = recipe.device, "device.cards=all doesn't say how many cards the job needs"
    unsaid = device.cards == "all" and recipe.launch.slurm.gpus is None and device.kind != "cpu"
    return [*slurm.faults(), *([Fault(key="launch.slurm.gpus", found=found, cure="Say how many: launch.slurm.gpus=4.")] if unsaid else [])]


def _handed_in(folder: Path, draft: Draft, terminal: Terminal, *, fit_only: bool) -> Answer:
    begun = submission.Submission(job="", name=folder.name, cwd=os.getcwd(), handed_in=time.time(), fit_only=fit_only)
    if submission.read(folder) is None:
        submission.write(folder, begun)  # the job may start before SLURM has told its id
    with doing("handing the job to SLURM"):
        handed = replace(begun, job=_job(folder, draft.needed()))
    submission.write(folder, handed)
    log = handed.log(folder)
    terminal.say(f"handed to SLURM: job {handed.job}", f"  {typed('watch', folder)}", f"  {typed('stop', folder)}", f"its words: {log}")
    return Answer(status=ExitCode.DONE, record={"status": "submitted", "job": handed.job, "run_dir": str(folder), "log": str(log)})


def _job(folder: Path, recipe: Recipe) -> str:
    """Hands the launch in that folder to SLURM; returns the job's id."""
    said, cards = recipe.launch.slurm, recipe.device.cards
    gpus = said.gpus
    if gpus is None and recipe.device.kind != "cpu":
        gpus = len(cards) if isinstance(cards, tuple) else cards or 1
    flags = said.model_dump(include={"partition", "account", "qos", "constraint", "time", "mem"})
    flags |= {"job_name": folder.name, "nodes": 1, "gpus_per_node": gpus or None, "cpus_per_task": said.cpus}
    more = {"requeue": True, "signal": f"B:USR2@{said.warn_s}", **said.sbatch}
    kept = {name: value for name, value in more.items() if value not in (None, False)}
    argv = process.python_module("autofit_launcher", "resume", str(folder), HERE)
    return slurm.submit(argv, folder / WORDS, flags, more=kept, setup=said.setup)


def job_seen(handed: Submission) -> JobSeen | None:
    """Asks SLURM about a launch's job, but not at each look; None where it can't be asked."""
    asked, seen = _SEEN.get(handed, (-ASK_S, None))
    if time.monotonic() - asked >= ASK_S:
        found = slurm.job_state(handed.job, name=handed.name)
        seen = JobSeen(state=found[0], reason=found[1]) if found is not None else None
        _SEEN[handed] = (time.monotonic(), seen)
    return seen


def stop(folder: Path, handed: Submission, seen: JobSeen) -> None:
    """Takes a job out of the queue, or asks autofit in it to stop. Raises BadInput in SLURM's words if that can't be done, and where it is
    no job of this folder's, whatever its submission.json says."""
    if (script := slurm.script_of(handed.job)) and not Path(script).resolve().is_relative_to(folder):
        found = f"SLURM's job {handed.job} is {script}, which isn't this run's"
        raise refusal(found, f"scancel {handed.job} would end it.", where=str(folder))
    if why := slurm.end(handed.job, waits=seen.waits):
        raise refusal(why, f"scancel {handed.job}", where=f"SLURM's job {handed.job}")


def never_begun(run: Run) -> str:
    """Tells what became of a job that is gone and had not begun with its launch."""
    assert run.submission is not None
    again = f"`{typed('resume', run.folder.path)}` hands it in again; the job's words: {run.submission.log(run.folder.path)}."
    return f"SLURM's job {run.submission.job} is over and had not begun with it. {again}"


def refuse_while_queued(folder: Path) -> Submission | None:
    """The job that a launch was handed to, if any. Raises BadInput where that job has it, and this process isn't in it."""
    handed = submission.read(folder)
    if handed is None or not handed.job or handed.job == submission.job_here():
        return handed
    if (seen := job_seen(handed)) is not None and seen.is_there:
        cure = f"`{typed('watch', folder)}` follows it, `{typed('stop', folder)}` takes it back."
        raise refusal(f"SLURM's job {handed.job} has it ({seen.state.lower()})", cure, where=str(folder))
    return handed


def begun_before(draft: Draft) -> Path | None:
    """The launch of the same recipe that an earlier start of the job that this process runs in has begun: a script of the person's own
    says ``autofit train`` again when its job is queued again."""
    if draft.recipe is None or not submission.starts_before():
        return None
    same, job = as_yaml(draft.recipe), submission.job_here()
    for folder in map(RunFolder, below(Path(draft.recipe.run.root))):
        asked = folder.asked if folder.asked.exists() else folder.recipe
        if owner.who(folder.path).job == job and folder.record.exists() and asked.read_text("utf-8") == same:
            return folder.path
    return None


def queue_again(run_dir: str, terminal: Terminal) -> None:
    """Puts the job that this process runs in into the queue once more, after the warning before its time limit; but not where a whole
    start of it has gained nothing, since the next would gain nothing, too."""
    job = submission.job_here()
    if run_dir and gained(run_in(Path(run_dir))):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # with which SLURM ends what is left of the job
        why = slurm.queue_again(job)
        told = f"couldn't be queued again: {why}" if why else "is queued again, and goes on with it"
    else:
        told = "is not queued again: no trial ended, nothing was saved. Give it more time (launch.slurm.time), or let it save more often."
    terminal.complain(f"SLURM warned of the time limit: job {job} {told}")


def gained(run: Run) -> bool:
    """Tells whether the launch gets further: a trial has ended since it last began, or its last three starts began at several places."""
    began = datetime.fromisoformat(run.owner.began).timestamp() if run.owner.began else 0.0
    if any(written_at(path) > began for path in run.folder.trials.glob("*/verdict.json")):
        return True
    begun_from = [one.checkpoint for one in run.known.attempts if one.ended == "interrupted"][-3:]
    return bool(begun_from) and (len(begun_from) < 3 or begun_from[0] != begun_from[-1])


def status_of(run: Run) -> ExitCode:
    """The exit status that a launch itself had, or would have had."""
    from autofit_launcher.engine.launch import exit_code_of
    from autofit_launcher.history.records import Status

    if run.state in (*set(Status), "fitted"):
        return ExitCode.DONE if run.state == "fitted" else exit_code_of(Status(run.state), ran=bool(run.known.attempts))
    return ExitCode.RUN_FAILED if run.state in ("killed", "elsewhere") else ExitCode.BAD_INPUT
