"""Draws how a launch has ended: the ladder as far as it was walked, and the full run beside its trial."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from autofit_launcher.cli import no_fit_view, prose, tables
from autofit_launcher.cli.tables import Column
from autofit_launcher.engine.state import Fit, above_trial
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.history.records import RunRecord
from autofit_launcher.history.runs import how_to_go_on
from autofit_launcher.ladder import rungs
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.page import facts
from autofit_launcher.shared.report import DRAWN_BATCH, Phase
from autofit_launcher.shared.sizes import format_duration, format_size
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial

_COLOURS = {Kind.FITS: "green", Kind.OUT_OF_MEMORY: "red", Kind.SPILLED: "red", Kind.CARD_TAKEN: "yellow", Kind.ALTERED: "yellow"}


def colour(verdict: Verdict) -> str:
    """The verdict's colour."""
    return _COLOURS.get(verdict.kind, "magenta")


def summary(console: Console, fit: Fit) -> None:
    """Shows the ladder as far as it was walked, and what was given up."""
    job = fit.job
    names = ("rung", *(wheel.name for wheel in job.ladder.wheels), "accum", "peak", "trial")
    columns = [*map(Column, names), Column("verdict", right=False)]
    rows = [[_cell(cell, bold=trial.verdict.fits) for cell in _row(trial, job)] for trial in fit.trials]
    if rows:
        tables.show(console, columns, rows, title=f"{job.recipe.name} on {job.budget}")
    if fit.chosen is None:
        no_fit_view.show(console, fit)
        return
    given_up = job.ladder.given_up(fit.chosen.rung)
    less = (f"{name} {rungs.value(used)} instead of {rungs.value(asked)}" for name, (asked, used) in given_up.items())
    used_batch, asked_batch = fit.chosen.effective_batch, job.ladder.effective_batch
    prose.say(console, _given_up(", ".join(less), _batch_words(fit.chosen, asked_batch), fit.same))
    if fit.chosen.rung.effective_batch != asked_batch:
        prose.say(console, no_fit_view.learning_rate(asked_batch, used_batch), style="yellow")


def _row(trial: Trial, job: Job) -> Iterable[str | Text]:
    verdict = trial.verdict
    yield str(trial.rung.index)
    yield from (rungs.value(trial.rung.values[wheel.name]) for wheel in job.ladder.wheels)
    yield str(trial.rung.accumulation)
    yield facts.size(verdict.peak_bytes)
    yield f"{trial.seconds:.1f} s" if not trial.kept else "kept"
    where = "" if verdict.phase == Phase.DONE else f" in {verdict.phase}"
    yield Text.assemble((verdict.kind.value, colour(verdict)), where)


def ended(console: Console, fit: Fit) -> None:
    """Shows how the full run has ended, and what can be done where it failed."""
    outcome = fit.outcome
    assert outcome is not None
    if outcome.done:
        seconds = sum(one.seconds for one in fit.attempts)
        times = f" in {len(fit.attempts)} attempts" if len(fit.attempts) > 1 else ""
        as_asked = fit.steps is None or not fit.steps.otherwise
        how = ("done", "green") if as_asked else ("at its end, but not done: it is another training than asked", "red")
        prose.say(console, Text.assemble(how, f"{times} in {format_duration(seconds)}; record: {fit.job.folder.record}"))
        _steps(console, fit, outcome.optimizer_steps)
        _length(console, outcome)
        if outcome.evidence:
            text = f"{outcome.evidence}: a traceback is among its last words, and its exit status is 0 all the same"
            prose.say(console, f"  {'error':<28} {text}", style="yellow")
        for name, value in _flat(fit.results):
            prose.say(console, f"  {name:<28} {value}")
    else:
        prose.say(console, _failure(outcome), style="red")
        files = fit.job.folder.attempt(max(1, len(fit.attempts)))
        prose.say(console, f"its output: {files.stderr} and {files.stdout}")
        _going_on(console, fit)
    _memory(console, fit)


def _length(console: Console, outcome: RunRecord) -> None:
    """Tells of a run that came to its end long before its length: a patience of its own, or something has ended it that it hides."""
    if outcome.ended_at:
        why = f"it says “{outcome.stopped_early}”" if outcome.stopped_early else "what ended it, its words don't say"
        text = f"the last that it told was {outcome.ended_at}; it ended there by itself, with exit status 0: {why}"
        prose.say(console, f"  {'length':<28} {text}", style="dim" if outcome.stopped_early else "yellow")


def _steps(console: Console, fit: Fit, made: int | None) -> None:
    """Shows the run's optimizer steps against those due; tells of a run that ended at a rung that isn't proven the same training."""
    steps, same = fit.steps, fit.certificate(fit.rung) if fit.rung is not None else None
    if steps is not None and steps.line == "proven":
        prose.say(console, f"  {'optimizer steps':<28} {steps.made}, as due by {steps.due.by}")
    elif steps is not None:
        prose.say(console, f"  {'optimizer steps':<28} {steps.line}", style="red" if steps.otherwise else "dim")
    elif made is not None and fit.rung is not None and not fit.rung.index and fit.attempts[-1].checkpoint is None:
        other = fit.due if fit.due and not fit.due.least <= made <= fit.due.most else None
        itself = f"; {other.words} would be {other.by}: the command's own doing" if other else ""
        prose.say(console, f"  {'optimizer steps':<28} {made}{itself}")
    if fit.rung is not None and fit.chosen is not None and fit.rung.index != fit.chosen.rung.index and same is not None:
        short = "; ".join(same.unproven)
        if short:
            prose.say(console, f"it ended at rung {fit.rung.index}, which isn't proven the same training: {short}", style="yellow")


def _going_on(console: Console, fit: Fit) -> None:
    """Shows what a failed run has left, and how to go on from there."""
    if fit.attempts[-1].left:
        prose.say(console, f"checkpoint left: {fit.attempts[-1].left[0]}")
        prose.command(console, f"autofit resume {shlex.quote(str(fit.job.folder.path))}", before="to go on from it: ")
        return
    if fit.job.adapter.asked.keeps is None:
        known = "autofit knows no checkpoint to go on from (trainer.args.resume says how this script does)"
        prose.say(console, f"{known}; what the script itself has saved is where it put it")
        return
    prose.say(console, how_to_go_on(fit.job.folder.path))


def _memory(console: Console, fit: Fit) -> None:
    """Shows the run's memory beside its trial's, and what it lost to memory on the way."""
    memory, lost = fit.memory, fit.outcome.lost_to_memory if fit.outcome is not None else ()
    if memory is not None and memory.ratio is not None:
        run, trial, cap, budget = map(format_size, (memory.run_peak_bytes, memory.trial_peak_bytes, memory.cap_bytes, memory.budget_bytes))
        prose.say(console, f"  {'memory':<28} run {run}, trial {trial} ({memory.ratio:.1%}), cap {cap}, budget {budget}")
        if above_trial(memory):
            more = "the run needed more than its trial had shown: please report this, with"
            prose.say(console, f"{more} {fit.job.folder.path}", style="yellow")
    for line in lost:
        prose.say(console, f"lost to memory, and the trainer went on: {line}", style="yellow")


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


def _cell(cell: str | Text, *, bold: bool) -> Text:
    text = cell if isinstance(cell, Text) else Text(cell)
    text.style = "bold" if bold else text.style
    return text


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


def _flat(results: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in results.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        else:
            yield name, str(value)
