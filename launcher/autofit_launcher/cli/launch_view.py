"""Shows a launch on the terminal, event by event: its plan, trials and attempts. Decides nothing."""

from __future__ import annotations

from functools import singledispatchmethod

from rich.console import Console
from rich.text import Text

from autofit_launcher.cli import outcome_view, prose, rungs_view
from autofit_launcher.cli.call import ALLOW_DIFFERENCE
from autofit_launcher.cli.rungs_view import words
from autofit_launcher.engine.events import (
    CardTaken,
    Finished,
    Fitted,
    KeptFits,
    Planned,
    Proven,
    Queued,
    Resumed,
    TrialReported,
    Unturned,
)  # fmt: skip
from autofit_launcher.engine.state import Status
from autofit_launcher.full_run.events import AttemptEnded, AttemptStarted, Deviated, Recovering
from autofit_launcher.history.events import Event
from autofit_launcher.history.kept_fits import day
from autofit_launcher.ladder import search
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import headroom
from autofit_launcher.machine.devices import Budget
from autofit_launcher.page.facts import size
from autofit_launcher.shared.sizes import format_duration, format_size
from autofit_launcher.trial.events import PhaseEntered, TrialEnded, TrialStarted
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial

USUAL = 5
"""Trials that nine of ten first launches take at most (docs/fit.md)."""


class Display:
    """Shows a launch on ``console``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: set[str] = set()

    @singledispatchmethod
    def hear(self, event: Event) -> None:
        """Shows an event; events without a method here are for other readers."""

    # -- before the first trial

    @hear.register
    def _queued(self, event: Queued) -> None:
        cure = "device.when_taken=stop would end it here, device.share=true for both would share the device"
        self._say(f"waiting for the turn of {event.holder} to end ({cure})", style="yellow")

    @hear.register
    def _planned(self, event: Planned) -> None:
        job = event.job
        recipe, budget = job.recipe, job.budget
        most = search.most_left(job.ladder, (), policy=recipe.ladder.search)
        self._labelled(recipe.name, recipe.summary, label_style="bold")
        self._labelled("asked", words(job.ladder.asked))
        self._labelled("device", str(budget))
        self._labelled("fits", _what_fits(budget))
        self._labelled("ladder", f"{_counted(len(job.ladder.rungs), 'rung')}; {_batch_of(job)}")
        self._labelled("time", _how_long(most))
        self._labelled("record", str(job.folder.path))
        for note in (*job.budget.notes, *job.adapter.notes()):
            self._labelled("note", note, label_style="yellow")

    @hear.register
    def _resumed(self, event: Resumed) -> None:
        for sentence in event.edited:
            self._say(sentence, style="yellow")

    @hear.register
    def _kept_fits(self, event: KeptFits) -> None:
        """Shows whether a kept fit is used, what has changed since, or why none can be kept."""
        found = event.reuse
        if found.used and found.fit is not None:
            made = day(found.fit.made)
            used = f"kept fit of {made}: nothing that it depends on has changed, so no trials are made (trial.fresh=true makes them)"
            self._once(used, style="green")
        elif found.why and found.fingerprint is not None:  # else nobody expects one
            self._once(found.why, style="dim")

    # -- trials

    @hear.register
    def _trial_started(self, event: TrialStarted) -> None:
        rung = event.rung
        if event.why:
            self._say(f"rung {rung.index} next: {event.why}", style="dim")
        of = f" of at most {event.most}" if event.most and event.most <= USUAL else ""
        self._say(f"trial {event.number}{of}: rung {rung.index}  {words(rung)}")

    @hear.register
    def _phase_entered(self, event: PhaseEntered) -> None:
        self._say(f"            {event.phase} at {event.seconds:.1f} s", style="dim")

    @hear.register
    def _trial_ended(self, event: TrialEnded) -> None:
        trial, verdict = event.trial, event.trial.verdict
        line = Text.assemble(
            f"  rung {trial.rung.index:>3}  ",
            (f"{verdict.kind.value:<14}", outcome_view.colour(verdict)),
            f" {size(verdict.peak_bytes):>9}  {trial.seconds:5.1f} s  ",
            _room(trial, event.budget) if verdict.fits else verdict.why,
        )
        self._say(line)
        for note in trial.report.notes:
            self._once(f"            {note}", style="dim")
        if not verdict.fits and not verdict.lower_rung_may_help and verdict.kind is not Kind.CARD_TAKEN:
            self._say("the trainer's output:", style="bold")
            self._say(verdict.evidence.strip()[-4000:] or "(it said nothing)")
            self._say(f"in full: {trial.folder}")

    @hear.register
    def _unturned(self, event: Unturned) -> None:
        then = "What ran is what was asked: the ladder is made of that" if event.believed else "So its micro-batch isn't turned"
        self._say(f"{event.words}. {then}", style="yellow")

    @hear.register
    def _proven(self, event: Proven) -> None:
        """Shows in one line what the rung's twins showed; nothing if no proof was needed."""
        same = event.same
        if not event.refused and not same.unproven and not same.layouts:
            return
        if event.refused:
            refused = f"rung {event.rung.index} is not the asked training: {event.refused}. Rungs with more accumulation than asked"
            accepts = f"{ALLOW_DIFFERENCE} (ladder.keep_update=false in a recipe) launches one with that difference"
            self._say(f"{refused} are left out; {accepts}", style="red")
        elif not same.unproven or same.counted:
            apart = f"{same.apart or 0:.0e} apart (rounding: the same)"
            steps = "; its steps are counted in the run" if same.counted else ", and so are its steps"
            self._say(f"the same training: its updates are {apart}; schedule and samples are the same{steps}", style="green")
        else:
            lead = "except" if all(line.startswith("differs") for line in same.unproven) else "as far as it is proven; not proven:"
            parts = "; ".join(f"{names}: {line}" for line, names in same.unproven.items())
            self._say(f"the same training, {lead} {parts}", style="yellow")
        for note in same.notes:
            self._say(f"  {note}", style="dim")

    @hear.register
    def _fitted(self, event: Fitted) -> None:
        outcome_view.summary(self._console, event.fit)

    @hear.register
    def _trial_reported(self, event: TrialReported) -> None:
        rungs_view.report(event.trial, event.job.budget, self._console)

    # -- the full run

    def command(self, shell: str) -> None:
        """Shows the native command."""
        self._say("the same without autofit:")
        prose.command(self._console, shell, before="  ")
        self._console.print()

    @hear.register
    def _card_taken(self, event: CardTaken) -> None:
        if event.waits_s is None:
            no = f"not launched: the card is taken: {event.holder}. The command above is what fits; start it when the card is free"
            self._say(no, style="red")
            return
        cure = "device.when_taken=stop would end it here"
        self._say(f"the card is taken: {event.holder}. Waiting up to {format_duration(event.waits_s)} for it ({cure})", style="yellow")

    @hear.register
    def _attempt_started(self, event: AttemptStarted) -> None:
        self.command(event.attempt.command)

    @hear.register
    def _deviated(self, event: Deviated) -> None:
        self._say(f"autofit: the run {event.what}" + (f": {event.evidence}" if event.evidence else ""), style="yellow")

    @hear.register
    def _attempt_ended(self, event: AttemptEnded) -> None:
        """Shows why a failed attempt ended."""
        one = event.attempt
        if event.outcome.done:
            return
        ended = f"autofit: attempt {one.number} ended after {format_duration(one.seconds)}: {one.ended} in {one.phase}"
        self._say(f"{ended}: {one.evidence}" if one.evidence else ended, style="red")

    @hear.register
    def _recovering(self, event: Recovering) -> None:
        move, rung = event.move, event.rung
        if rung is None:
            self._say(f"autofit: nothing more is tried: {move.why}", style="red")
            return
        start = f"from {move.checkpoint}" if move.checkpoint is not None else "from the beginning"
        workers = f", {move.workers} loader workers" if move.workers is not None else ""
        self._say(f"autofit: {move.why}. Rung {rung.index} ({words(rung)}{workers}), {start}", style="yellow")

    @hear.register
    def _finished(self, event: Finished) -> None:
        """Shows how the full run ended; a launch that was interrupted is told by what interrupted it."""
        if event.fit.outcome is not None and event.fit.status not in (Status.INTERRUPTED, Status.STOPPED):
            outcome_view.ended(self._console, event.fit)

    # -- words

    def _labelled(self, label: str, said: str, *, label_style: str = "dim") -> None:
        """Prints a label, and a paragraph beside it."""
        width = max(8, len(label) + 2)
        self._say(Text.assemble((f"{label:<{width}}", label_style), said))

    def _say(self, said: str | Text, *, style: str = "") -> None:
        prose.say(self._console, said, style=style)

    def _once(self, line: str, *, style: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line, style=style)


def _what_fits(budget: Budget) -> str:
    """The cap, and how much memory a trial really gets, in words."""
    room = headroom.words(budget.budget_bytes, budget.headroom, kind=budget.kind)
    measured = "; a trial may take more, to be measured" if budget.ceiling_bytes > budget.cap_bytes else ""
    return f"what needs {format_size(budget.cap_bytes)} at most: {room} of the budget stay free{measured}"


def _how_long(most: int) -> str:
    """Tells in words how many trials there will be. ``most``: their highest number."""
    usual = _counted(min(most, USUAL), "trial")
    number = f"{usual} at most" if 1 < most <= USUAL else usual if most == 1 else f"usually {usual} at most, {most} if all goes badly"
    return f"{number}, each starts the command anew and makes some steps; then the run"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _room(trial: Trial, budget: Budget) -> str:
    """Tells in words how close to the cap a trial that fits came."""
    cap, peak = trial.report.cap_bytes or budget.cap_bytes, trial.verdict.peak_bytes
    return f"{format_size(cap - peak)} below the cap of {format_size(cap)}" if peak else ""


def _batch_of(job: Job) -> str:
    """Tells in words what the ladder does to the effective batch."""
    effective, last = job.ladder.effective_batch, min(rung.effective_batch for rung in job.ladder.rungs)
    if not effective:
        return "the batch is the command's own"
    if job.adapter.asked.unseen_step:
        return "the effective batch stays the script's own on all of them: the first step that is seen shows it"
    processes = f" ({ranks} processes)" if (ranks := job.ladder.asked.world_size) > 1 else ""
    if last == effective:
        return f"the effective batch stays {effective}{processes} on all of them"
    return f"the effective batch goes down with the micro-batch, from {effective}{processes} to {last} at the last: accepted"
