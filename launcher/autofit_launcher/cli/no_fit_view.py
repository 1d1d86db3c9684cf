"""Says why no rung fits and nothing is launched, and what would fit, with the words to type."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from autofit_launcher.cli import prose
from autofit_launcher.cli.call import CHECKPOINTING as CHECKPOINTS
from autofit_launcher.engine.state import Fit, Status, least_need
from autofit_launcher.ladder.rungs import CHECKPOINTING
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import headroom
from autofit_launcher.shared.memory_failures import OF_MACHINE
from autofit_launcher.shared.sizes import GIB, MIB, format_size

_OF_MEMORY = (Kind.FITS, Kind.OUT_OF_MEMORY, Kind.SPILLED)


def show(console: Console, fit: Fit) -> None:
    """Shows why nothing is launched; then a line for each thing that would help, and how to say it."""
    if fit.status is not Status.NO_RUNG_FITS:
        prose.say(console, _stopped(fit), style="red")
        return
    beside = bool(fit.trials) and all(trial.verdict.source in OF_MACHINE for trial in fit.trials)
    where = "what the machine has beside its device" if beside else str(fit.job.budget)
    prose.say(console, f"No rung fits {where}: {_why(fit)}", style="red")
    if not beside:
        for line in _cures(fit):
            prose.say(console, f"  {line}")


def _why(fit: Fit) -> str:
    """Tells what was tried, and what became of rungs that failed of something else than the device's memory."""
    rungs, tried = len(fit.job.ladder.rungs), len({trial.rung.index for trial in fit.trials})
    asked = "" if tried == rungs else ", which rule out the others"
    asked += ", full runs of this launch have ruled out some" if fit.reuse.failures else ""
    said = [f"{tried} of {rungs} rungs tried{asked}"]
    said += [f"with more accumulation than asked {fit.refused}"] if fit.refused else []
    said += [f"the micro-batch isn't turned: {why}"] if (why := fit.unturned or fit.job.adapter.asked.unturned) else []
    others: dict[str, list[str]] = {}
    for trial in fit.trials:
        if trial.verdict.kind not in _OF_MEMORY or trial.verdict.source in OF_MACHINE:
            others.setdefault(f"{trial.verdict.kind} ({trial.verdict.why})", []).append(str(trial.rung.index))
    said += [f"rung {', '.join(indices)}: {what}" for what, indices in others.items()]
    return f"{'; '.join(said)}."


def _cures(fit: Fit) -> Iterator[str]:
    yield _more_memory(fit)
    if type(fit.job.adapter).general and CHECKPOINTING not in fit.job.ladder.asked.values:
        yield f"autofit run {CHECKPOINTS} -- ... checkpoints the model's repeated modules: slower, the same training"
    for could in fit.could_fit:
        fits = f"{could.rung} is estimated to fit" if could.rung is not None else "nothing tells whether it would be enough"
        yield f"autofit run {could.flag} -- ... ({could.key} in a recipe), another training: {fits}"
        if could.rung is not None and could.rung.effective_batch != fit.job.ladder.effective_batch:
            yield learning_rate(fit.job.ladder.effective_batch, could.rung.effective_batch)


def _more_memory(fit: Fit) -> str:
    """The line on how much memory the cheapest of the tried rungs would need."""
    need, budget = least_need(fit.trials), fit.job.budget
    if need is None:
        return "more memory, a lower floor or another wheel of the ladder"
    rung, verdict = need.trial.rung, need.trial.verdict
    if not need.measured and need.needed_bytes <= budget.cap_bytes:
        return f"more memory: how much rung {rung.index} ({rung}) needs was not seen: {verdict.why}"
    needed = headroom.budget_for(need.needed_bytes, budget.headroom, kind=budget.kind)
    rounded = f"{-(-needed // MIB)}MiB" if needed < GIB else f"{-(-needed * 10 // GIB) / 10:g}GiB"
    least = "" if need.measured else "at least "
    needs = f"rung {rung.index} ({rung}) needs {least}{format_size(need.needed_bytes)} in phase {verdict.phase}"
    return f"{least}device.memory={rounded}: {needs}"


def _stopped(fit: Fit) -> str:
    """The sentence for a trial that ended in a way no lower rung would cure, and who is at fault."""
    last = fit.trials[-1].verdict if fit.trials else None
    if last is None or last.kind is Kind.CARD_TAKEN:
        return f"Stopped: others hold the card{f' ({last.why})' if last else ''}. Wait until it is free, or set device.share=true."
    if last.kind is not Kind.VACUOUS:
        return f"Stopped: the trainer {last.kind} in a trial, which no lower rung would cure."
    return (
        f"Stopped: the trial proved nothing, which no lower rung would cure ({last.why}). If the command trains and validates by "
        f"itself, that is a fault of autofit's, not of the script: please report it, with {fit.job.folder.path}."
    )


def learning_rate(asked: int, used: int) -> str:
    """The sentence on what another effective batch means for training."""
    less = asked / used
    return (
        f"The effective batch is {used} instead of {asked}: an epoch has {less:g} times the optimizer steps, so "
        f"that what is counted in steps (warm-up, schedules) ends {less:g} times as early, and the learning rate was chosen for another "
        f"batch; as a rule divide it by {less:g} for SGD, by {less**0.5:.2g} for Adam. Nothing of that is done for you."
    )
