"""Says why no rung fits and nothing is launched, what would help, and what would fit."""

from __future__ import annotations

from rich.console import Console

from launcher.cli import prose, run
from launcher.cli.run import ALLOW_BATCH
from launcher.cli.rungs_view import words
from launcher.engine.state import Fit, Need, Status, least_need
from launcher.ladder.rungs import CHECKPOINTING
from launcher.ladder.verdict import Kind
from launcher.machine import headroom
from launcher.shared.memory_failures import OF_MACHINE
from launcher.shared.report import Phase
from launcher.shared.sizes import GIB, MIB, format_size
from launcher.trial import rung_zero
from launcher.trial.job import Job


def show(console: Console, fit: Fit) -> None:
    """Why nothing is launched, what would help, and what would fit."""
    if fit.status is Status.CARD_TAKEN or fit.nearest is None or fit.nearest_command is None:
        prose.say(console, _why_none(fit), style="red")
        return
    job, asked = fit.job, fit.job.ladder.effective_batch
    refused = f" that is the asked training: with more accumulation {fit.refused}" if fit.refused else ""
    prose.say(
        console,
        f"No rung fits {job.budget} with the effective batch of {asked}{refused}. Nearest that fits, really tried "
        f"({format_size(fit.nearest.verdict.peak_bytes)}):", style="red",
    )  # fmt: skip
    prose.command(console, fit.nearest_command.shell(), before="  ")
    accepts = f"autofit run {ALLOW_BATCH} -- ... (ladder.keep_batch=false in a recipe) accepts that. "
    prose.say(console, accepts + learning_rate(asked, fit.nearest.effective_batch), style="red")


def _why_none(fit: Fit) -> str:
    """Why nothing is launched, and what would help."""
    job = fit.job
    if fit.status is Status.MISREAD and fit.misread is not None:
        return f"Stopped, nothing was launched: {_misread(fit)}. {rung_zero.cure(fit.misread)}"
    if fit.status is Status.CARD_TAKEN:
        return f"Stopped: others hold the card ({fit.trials[-1].verdict.why}). Wait until it is free, or set device.share=true."
    if fit.refused:
        return _not_the_asked(fit)
    if fit.trials and fit.status is not Status.NO_RUNG_FITS:
        return _stopped(fit)
    disproved = "" if fit.reuse is None or not fit.reuse.failures else ", full runs of this launch have ruled out some"
    rungs = len({trial.rung.index for trial in fit.trials})
    others = ", the others ask as much as one that failed" if rungs < len(job.ladder.rungs) else ""
    tried = f"{rungs} of {len(job.ladder.rungs)} rungs tried{disproved}{others}{_crashed(fit)}"
    if any(trial.verdict.otherwise for trial in fit.trials):
        return f"No rung fits {job.budget}: {tried}. {_memory_for(least_need(fit.trials), job)}{_not_turned(fit)}"
    cure = f"{_memory_for(least_need(fit.trials), job)}Lower a floor, add a wheel, or give it more memory.{_checkpointing(job)}"
    if fit.trials and all(trial.verdict.phase == Phase.FINISH for trial in fit.trials):
        cure = "All of them failed at the end of a run (final validation, figures): set trainer.args.plots=False, or give it more memory."
    elif fit.trials and all(trial.verdict.source in OF_MACHINE for trial in fit.trials):
        return f"No rung fits, for want of what the machine has beside its device: {tried}. {fit.trials[-1].verdict.why}"
    return f"No rung fits {job.budget}: {tried}. {cure}"


def _crashed(fit: Fit) -> str:
    """What is said of rungs that crashed and were passed over, since others had come further."""
    crashed = [trial for trial in fit.trials if trial.verdict.kind is Kind.CRASHED]
    return f"; rung {', '.join(str(trial.rung.index) for trial in crashed)} crashed ({crashed[-1].verdict.why})" if crashed else ""


def _not_the_asked(fit: Fit) -> str:
    """The sentence for rungs that fit but are not the asked training."""
    return (
        f"No rung fits {fit.job.budget} that is the asked training: with more accumulation {fit.refused}; without it none fits. "
        f"Give it more memory, or another wheel (sizes, lengths, checkpointing); autofit run {ALLOW_BATCH} -- ... "
        f"(ladder.keep_batch=false in a recipe) accepts another effective batch.{_checkpointing(fit.job)}"
    )


def _checkpointing(job: Job) -> str:
    """The sentence on what a command gets for the asking; nothing where its ladder has it."""
    if not type(job.adapter).general or CHECKPOINTING in job.ladder.asked.values:
        return ""
    return f" autofit run {run.CHECKPOINTING} -- ... checkpoints half of the model's repeated modules, or all (slower, the same training)."


def _misread(fit: Fit) -> str:
    """The sentence on what was read of the command and what it ran."""
    assert fit.misread is not None
    return rung_zero.words(fit.misread, fit.job.adapter.asked.read_at)


def _stopped(fit: Fit) -> str:
    """The sentence for a trial that ended in a way no lower rung would cure, and who is at fault."""
    last = fit.trials[-1]
    if last.verdict.kind is not Kind.VACUOUS:
        return f"Stopped: the trainer {last.verdict.kind} in a trial, which no lower rung would cure."
    return (
        f"Stopped: the trial proved nothing, which no lower rung would cure ({last.verdict.why}). If the command trains and validates by "
        f"itself, that is a fault of autofit's, not of the script: please report it, with {fit.job.folder.path}."
    )


def _not_turned(fit: Fit) -> str:
    """The sentence for rungs at which a setting did not run as autofit had set it."""
    names = dict.fromkeys(name for trial in fit.trials for name in trial.verdict.otherwise)
    last = next(trial for trial in reversed(fit.trials) if trial.verdict.otherwise)
    typed = "".join(f" trainer.args.spelled.{name}=..." for name in names) if type(fit.job.adapter).general else ""
    cure = f" Say how it is really spelled, before --:{typed}." if typed else ""
    return (
        f"autofit turned {' and '.join(names)}, and {last.verdict.why}: it has mistaken how that is said; the script is not at fault."
        f"{cure} Please report it, with {fit.job.folder.path}."
    )


def _memory_for(need: Need | None, job: Job) -> str:
    """The sentence on how much memory the cheapest tried rung would need."""
    if need is None:
        return ""
    rung = need.trial.rung
    if not need.measured and need.needed_bytes <= job.budget.cap_bytes:
        return f"Nearest: rung {rung.index} ({words(rung)}); how much it needs was not seen: {need.trial.verdict.why}. "
    budget = headroom.budget_for(need.needed_bytes, job.budget.headroom, kind=job.budget.kind)
    rounded = -(-budget // MIB) if budget < GIB else -(-budget * 10 // GIB) / 10
    unit = "MiB" if budget < GIB else "GiB"
    least = "" if need.measured else "at least "
    return (
        f"Nearest: rung {rung.index} ({words(rung)}) needs {least}{format_size(need.needed_bytes)} in phase "
        f"{need.trial.verdict.phase}, which {least}device.memory={rounded:g}{unit} holds. "
    )


def learning_rate(asked: int, used: int) -> str:
    """The sentence on what another effective batch means for training."""
    less = asked / used
    return (
        f"The effective batch is {used} instead of {asked}: an epoch has {less:g} times the optimizer steps, so "
        f"that what is counted in steps (warm-up, schedules) ends {less:g} times as early, and the learning rate was chosen for another "
        f"batch; as a rule divide it by {less:g} for SGD, by {less**0.5:.2g} for Adam. Nothing of that is done for you."
    )
