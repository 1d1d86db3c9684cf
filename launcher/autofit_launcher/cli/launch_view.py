"""Shows a launch on the terminal as it goes on: its plan, trials and attempts. Decides nothing."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from autofit_launcher.cli import outcome_view
from autofit_launcher.cli.say import command, say
from autofit_launcher.engine.launch import Fit, Screen
from autofit_launcher.history.records import Status
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import headroom
from autofit_launcher.machine.devices import Budget
from autofit_launcher.page import facts
from autofit_launcher.shared.sizes import format_size
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial


class Display(Screen):
    """Shows a launch on ``console``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: set[str] = set()

    def planned(self, job: Job) -> None:
        recipe, budget, rungs = job.recipe, job.budget, len(job.ladder.rungs)
        self._labelled(recipe.name, recipe.summary, label_style="bold")
        self._labelled("asked", str(job.ladder.asked))
        if job.adapter.python:
            self._labelled("python", job.adapter.python)
        self._labelled("device", str(budget))
        self._labelled("fits", _what_fits(budget))
        self._labelled("ladder", f"{rungs} rung{'s' if rungs > 1 else ''}; {_batch_of(job)}")
        self._labelled("record", str(job.folder.path))
        for note in (*job.budget.notes, *job.adapter.notes()):
            self._labelled("note", note, label_style="yellow")

    def trial_ended(self, trial: Trial) -> None:
        verdict = trial.verdict
        line = Text.assemble(
            f"  rung {trial.rung.index:>3}  ",
            (f"{verdict.kind.value:<14}", outcome_view.colour(verdict)),
            f" {facts.size(verdict.peak_bytes):>9}  {trial.seconds:5.1f} s  ",
            _room(trial) if verdict.fits else verdict.why,
        )
        self.say(line, "")
        for note in trial.report.notes:
            if note not in self._said:
                self._said.add(note)
                self.say(f"            {note}", "dim")
        if not verdict.fits and not verdict.lower_rung_may_help and verdict.kind is not Kind.CARD_TAKEN:
            self.say("the trainer's output:", "bold")
            self.say(verdict.evidence.strip()[-4000:] or "(it said nothing)", "")
            self.say(f"in full: {trial.folder}", "")

    def proven(self, rung: Rung, same: SameTraining, refused: str) -> None:
        """Shows in one line what the rung's twins showed; nothing if no proof was needed."""
        if not refused and not same.unproven and not same.layouts:
            return
        if refused:
            refused = f"rung {rung.index} is not the asked training: {refused}. Rungs with more accumulation than asked"
            accepts = "--allow-difference (ladder.keep_update=false in a recipe) launches one with that difference"
            self.say(f"{refused} are left out; {accepts}", "red")
        elif not same.unproven or same.counted:
            apart = f"{same.apart or 0:.0e} apart (rounding: the same)"
            steps = "; its steps are counted in the run" if same.counted else ", and so are its steps"
            self.say(f"the same training: its updates are {apart}; schedule and samples are the same{steps}", "green")
        else:
            lead = "except" if all(line.startswith("differs") for line in same.unproven) else "as far as it is proven; not proven:"
            parts = "; ".join(f"{names}: {line}" for line, names in same.unproven.items())
            self.say(f"the same training, {lead} {parts}")
        for note in same.notes:
            self.say(f"  {note}", "dim")

    def fitted(self, fit: Fit) -> None:
        outcome_view.summary(self._console, fit)

    def launched(self, native: str) -> None:
        self.say("the same without autofit:", "")
        command(self._console, native, before="  ")
        self._console.print()

    def finished(self, fit: Fit) -> None:
        """Shows how the full run ended; a launch that was interrupted is told by what interrupted it."""
        if fit.outcome is not None and fit.status not in (Status.INTERRUPTED, Status.STOPPED):
            outcome_view.ended(self._console, fit)

    # -- words

    def _labelled(self, label: str, said: str, *, label_style: str = "dim") -> None:
        """Prints a label, and a paragraph beside it."""
        width = max(8, len(label) + 2)
        self.say(Text.assemble((f"{label:<{width}}", label_style), said), "")

    def say(self, words: str | Text, style: str = "yellow") -> None:
        say(self._console, words, style=style)


def _what_fits(budget: Budget) -> str:
    """The cap, and how much memory a trial really gets, in words."""
    room = headroom.words(budget.budget_bytes, budget.headroom, kind=budget.kind)
    measured = "; a trial may take more, to be measured" if budget.ceiling_bytes > budget.cap_bytes else ""
    return f"what needs {format_size(budget.cap_bytes)} at most: {room} of the budget stay free{measured}"


def _room(trial: Trial) -> str:
    """Tells in words how close to the cap a trial that fits came."""
    cap, peak = trial.report.cap_bytes, trial.verdict.peak_bytes
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
