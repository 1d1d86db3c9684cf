"""Draws how a launch has ended: the ladder as far as it was walked, and the full run beside its trial."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from autofit_launcher.cli.say import command, say, table
from autofit_launcher.engine.launch import Fit, above_trial, least_need
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.history.records import RunRecord, Status
from autofit_launcher.history.runs import how_to_go_on
from autofit_launcher.ladder import rungs
from autofit_launcher.ladder.rungs import CHECKPOINTING
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine import headroom
from autofit_launcher.page import facts
from autofit_launcher.shared.memory_failures import OF_MACHINE
from autofit_launcher.shared.report import DRAWN_BATCH, Phase
from autofit_launcher.shared.sizes import GIB, MIB, format_duration, format_size
from autofit_launcher.trial.trial import Trial

_COLOURS = {Kind.FITS: "green", Kind.OUT_OF_MEMORY: "red", Kind.SPILLED: "red", Kind.CARD_TAKEN: "yellow", Kind.ALTERED: "yellow"}
_OF_MEMORY = (Kind.FITS, Kind.OUT_OF_MEMORY, Kind.SPILLED)


def colour(verdict: Verdict) -> str:
    """The verdict's colour."""
    return _COLOURS.get(verdict.kind, "magenta")


def phases(console: Console, trial: Trial) -> None:
    """Draws one trial, phase by phase."""
    rows = []
    for use in trial.report.uses:
        peaks = {name: facts.size(getattr(use, f"{name}_bytes")) for name in ("allocated", "reserved", "outside", "device")}
        rows.append({"phase": use.phase, "batches": str(use.batches), "seconds": f"{use.seconds:.2f}", **peaks})
    table(console, rows, left=("phase",), title=f"rung {trial.rung.index}: {trial.rung}")
    say(console, f"cap {format_size(trial.report.cap_bytes)}; {trial.report.optimizer_steps} optimizer steps")


def summary(console: Console, fit: Fit) -> None:
    """Shows the ladder as far as it was walked, and what was given up."""
    job = fit.job
    table(console, [_row(trial) for trial in fit.trials], left=("verdict",), title=f"{job.recipe.name} on {job.budget}")
    if fit.chosen is None:
        _no_fit(console, fit)
        return
    given_up = job.ladder.given_up(fit.chosen.rung)
    less = (f"{name} {rungs.value(used)} instead of {rungs.value(asked)}" for name, (asked, used) in given_up.items())
    used_batch, asked_batch = fit.chosen.effective_batch, job.ladder.effective_batch
    say(console, _given_up(", ".join(less), _batch_words(fit.chosen, asked_batch), fit.same))
    if fit.chosen.rung.effective_batch != asked_batch:
        say(console, _learning_rate(asked_batch, used_batch), style="yellow")


def _row(trial: Trial) -> dict[str, Text]:
    """A trial's row of the table, bold if it fits."""
    rung, verdict = trial.rung, trial.verdict
    cells = {"rung": str(rung.index), **{name: rungs.value(value) for name, value in rung.values.items()}, "accum": str(rung.accumulation)}
    cells |= {"peak": facts.size(verdict.peak_bytes), "trial": "kept" if trial.kept else f"{trial.seconds:.1f} s"}
    where = "" if verdict.phase == Phase.DONE else f" in {verdict.phase}"
    bold = "bold" if verdict.fits else ""
    told = Text.assemble((verdict.kind.value, colour(verdict)), where, style=bold)
    return {name: Text(cell, style=bold) for name, cell in cells.items()} | {"verdict": told}


def ended(console: Console, fit: Fit) -> None:
    """Shows how the full run has ended, and what can be done where it failed."""
    outcome = fit.outcome
    assert outcome is not None
    if outcome.done:
        seconds = sum(one.seconds for one in fit.attempts)
        times = f" in {len(fit.attempts)} attempts" if len(fit.attempts) > 1 else ""
        as_asked = fit.steps is None or not fit.steps.otherwise
        how = ("done", "green") if as_asked else ("at its end, but not done: it is another training than asked", "red")
        say(console, Text.assemble(how, f"{times} in {format_duration(seconds)}; record: {fit.job.folder.record}"))
        _steps(console, fit, outcome.optimizer_steps)
        _length(console, outcome)
        if outcome.evidence:
            text = f"{outcome.evidence}: a traceback is among its last words, and its exit status is 0 all the same"
            say(console, f"  {'error':<28} {text}", style="yellow")
        for name, value in _flat(fit.results):
            say(console, f"  {name:<28} {value}")
    else:
        say(console, _failure(outcome), style="red")
        files = fit.job.folder.attempt(max(1, len(fit.attempts)))
        say(console, f"its output: {files.stderr} and {files.stdout}")
        _going_on(console, fit)
    _memory(console, fit)


def _length(console: Console, outcome: RunRecord) -> None:
    """Tells of a run that came to its end long before its length: a patience of its own, or something has ended it that it hides."""
    if outcome.ended_at:
        why = f"it says “{outcome.stopped_early}”" if outcome.stopped_early else "what ended it, its words don't say"
        text = f"the last that it told was {outcome.ended_at}; it ended there by itself, with exit status 0: {why}"
        say(console, f"  {'length':<28} {text}", style="dim" if outcome.stopped_early else "yellow")


def _steps(console: Console, fit: Fit, made: int | None) -> None:
    """Shows the run's optimizer steps against those due; tells of a run that ended at a rung that isn't proven the same training."""
    steps, same = fit.steps, fit.certificate(fit.rung) if fit.rung is not None else None
    if steps is not None and steps.line == "proven":
        say(console, f"  {'optimizer steps':<28} {steps.made}, as due by {steps.due.by}")
    elif steps is not None:
        say(console, f"  {'optimizer steps':<28} {steps.line}", style="red" if steps.otherwise else "dim")
    elif made is not None and fit.rung is not None and not fit.rung.index and fit.attempts[-1].checkpoint is None:
        other = fit.due if fit.due and not fit.due.least <= made <= fit.due.most else None
        itself = f"; {other.words} would be {other.by}: the command's own doing" if other else ""
        say(console, f"  {'optimizer steps':<28} {made}{itself}")
    if fit.rung is not None and fit.chosen is not None and fit.rung.index != fit.chosen.rung.index and same is not None:
        short = "; ".join(same.unproven)
        if short:
            say(console, f"it ended at rung {fit.rung.index}, which isn't proven the same training: {short}", style="yellow")


def _going_on(console: Console, fit: Fit) -> None:
    """Shows what a failed run has left, and how to go on from there."""
    if fit.attempts[-1].left:
        say(console, f"checkpoint left: {fit.attempts[-1].left[0]}")
        command(console, f"autofit resume {shlex.quote(str(fit.job.folder.path))}", before="to go on from it: ")
        return
    if fit.job.adapter.asked.keeps is None:
        known = "autofit knows no checkpoint to go on from (trainer.args.resume says how this script does)"
        say(console, f"{known}; what the script itself has saved is where it put it")
        return
    say(console, how_to_go_on(fit.job.folder.path))


def _memory(console: Console, fit: Fit) -> None:
    """Shows the run's memory beside its trial's, and what it lost to memory on the way."""
    memory, lost = fit.memory, fit.outcome.lost_to_memory if fit.outcome is not None else ()
    if memory is not None and memory.ratio is not None:
        run, trial, cap, budget = map(format_size, (memory.run_peak_bytes, memory.trial_peak_bytes, memory.cap_bytes, memory.budget_bytes))
        say(console, f"  {'memory':<28} run {run}, trial {trial} ({memory.ratio:.1%}), cap {cap}, budget {budget}")
        if above_trial(memory):
            more = "the run needed more than its trial had shown: please report this, with"
            say(console, f"{more} {fit.job.folder.path}", style="yellow")
    for line in lost:
        say(console, f"lost to memory, and the trainer went on: {line}", style="yellow")


def _batch_words(trial: Trial, asked: int) -> str:
    used = trial.effective_batch
    if least_most := trial.report.facts.get(DRAWN_BATCH):
        return "its batches have {} to {} samples, as they were seen".format(*least_most)
    if not asked:
        return f"effective batch {used}, as the trial saw it" if used and trial.batch_seen else "the batch is the command's own"
    if trial.rung.effective_batch != asked:
        return f"effective batch {used} instead of {asked}"
    if used != asked:
        return f"effective batch {used}, as the trial saw it; the command's words say {asked}"
    return f"effective batch {asked}, as asked" if trial.batch_seen else f"effective batch {asked} as told; the trial could not see it"


def _given_up(text: str, batch: str, same: SameTraining | None) -> str:
    """Tells what the rung gives up; that it gives up nothing, or is as asked, it tells only where that is proven."""
    if same is None or not same.unproven:
        return f"given up: {text or 'nothing'} ({batch})"
    if same.counted:
        return f"given up: {text or 'nothing'} ({batch}; the same training, whose steps the run counts)"
    short = "; ".join(same.unproven)
    unsaid = batch.removesuffix(", as asked")
    return f"given up: {f'{text} ' if text else ''}({unsaid}; not proven the same training: {short})"


def _failure(outcome: RunRecord) -> str:
    """Tells in a sentence how a full run failed. The exit status says something only where the run ended by itself."""
    evidence = f": {outcome.evidence}" if outcome.evidence else ""
    if outcome.ended == Ended.DIVERGED and outcome.returncode == 0:
        return f"the full run came to its end, but is not done: it has diverged{evidence}"
    how = {
        Ended.DIVERGED: "diverged (its loss was not finite) and was ended", Ended.STALLED: "stood still and was ended",
        Ended.SPILLED: "spilled out of the card and was ended", Ended.UNWRITABLE: "failed since it could not write",
    }  # fmt: skip
    if outcome.ended in how:
        return f"the full run {how[Ended(outcome.ended)]}{evidence}"
    reason = f": {outcome.memory_failure['line']}" if outcome.memory_failure else ""
    if outcome.returncode < 0:
        return f"the full run was ended by {signal.Signals(-outcome.returncode).name}{reason}"
    return f"the full run failed with exit status {outcome.returncode}{reason}"


def _flat(results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in results.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        else:
            yield name, str(value)


# -- no rung fits


def _no_fit(console: Console, fit: Fit) -> None:
    """Shows why nothing is launched; then a line for each thing that would help, and how to say it."""
    if fit.status is not Status.NO_RUNG_FITS:
        say(console, _stopped(fit), style="red")
        return
    beside = bool(fit.trials) and all(trial.verdict.source in OF_MACHINE for trial in fit.trials)
    where = "what the machine has beside its device" if beside else str(fit.job.budget)
    say(console, f"No rung fits {where}: {_why(fit)}", style="red")
    if not beside:
        for line in _cures(fit):
            say(console, f"  {line}")


def _why(fit: Fit) -> str:
    """Tells what was tried, and what became of rungs that failed of something else than the device's memory."""
    many, tried = len(fit.job.ladder.rungs), len({trial.rung.index for trial in fit.trials})
    asked = "" if tried == many else ", which rule out the others"
    asked += ", full runs of this launch have ruled out some" if fit.reuse.failures else ""
    said = [f"{tried} of {many} rungs tried{asked}"]
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
        yield "autofit run --checkpointing -- ... checkpoints the model's repeated modules: slower, the same training"
    for could in fit.could_fit:
        fits = f"{could.rung} is estimated to fit" if could.rung is not None else "nothing tells whether it would be enough"
        yield f"autofit run {could.flag} -- ... ({could.key} in a recipe), another training: {fits}"
        if could.rung is not None and could.rung.effective_batch != fit.job.ladder.effective_batch:
            yield _learning_rate(fit.job.ladder.effective_batch, could.rung.effective_batch)


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


def _learning_rate(asked: int, used: int) -> str:
    """The sentence on what another effective batch means for training."""
    less = asked / used
    return (
        f"The effective batch is {used} instead of {asked}: an epoch has {less:g} times the optimizer steps, so "
        f"that what is counted in steps (warm-up, schedules) ends {less:g} times as early, and the learning rate was chosen for another "
        f"batch; as a rule divide it by {less:g} for SGD, by {less**0.5:.2g} for Adam. Nothing of that is done for you."
    )
