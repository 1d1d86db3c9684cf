"""Shows a launch on the terminal as it goes on and how it has ended: its plan, trials, the ladder, attempts. Decides nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from autofit_launcher.cli.say import say, shown, table
from autofit_launcher.common.memory_failures import OF_MACHINE
from autofit_launcher.common.report import DRAWN_BATCH
from autofit_launcher.common.sizes import MIB, format_duration, format_size
from autofit_launcher.engine.launch import Launch, Screen, above_trial, least_need
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.history.records import RunRecord, Status
from autofit_launcher.history.runs import how_to_go_on
from autofit_launcher.ladder import rungs
from autofit_launcher.ladder.rungs import CHECKPOINTING, Ladder, Rung
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import devices
from autofit_launcher.page import page
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial

_COLOURS = {Kind.FITS: "green", Kind.OUT_OF_MEMORY: "red", Kind.SPILLED: "red", Kind.CARD_TAKEN: "yellow", Kind.ALTERED: "yellow"}


class Display(Screen):
    """Shows a launch on ``console``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: set[str] = set()
        self._ladder: Ladder | None = None

    def planned(self, job: Job) -> None:
        self._ladder = job.ladder
        recipe, budget, many = job.recipe, job.budget, len(job.ladder.rungs)
        self._line(recipe.name, recipe.summary)
        self._line("asked", str(job.ladder.asked))
        if job.adapter.python:
            self._line("python", job.adapter.python)
        self._line("device", str(budget))
        free = format_size(budget.budget_bytes - budget.cap_bytes)
        self._line("fits", f"what needs {format_size(budget.cap_bytes)} at most: {free} of the budget stay free")
        self._line("ladder", f"{many} rung{'s' if many > 1 else ''}; {_batch_of(job)}")
        self._line("record", str(job.folder.path))
        for note in (*job.budget.notes, *job.adapter.notes()):
            self._line("note", note, "yellow")

    def trial_ended(self, trial: Trial) -> None:
        """Shows a trial in a line, and what it had to remark."""
        verdict = trial.verdict
        took = "kept" if trial.kept else f"{trial.seconds:.1f} s"
        told = (verdict.kind.value, _COLOURS.get(verdict.kind, "magenta"))
        why = f": {verdict.why}" if verdict.why and not verdict.fits else ""
        how = str(trial.rung)
        if self._ladder is not None and trial.rung in self._ladder.rungs:
            how = ", ".join(f"{name} {rungs.value(used)}" for name, (_, used) in self._ladder.given_up(trial.rung).items()) or "as asked"
        self.say(Text.assemble(f"  rung {trial.rung.index} ({how})  ", told, f"  {page.size(verdict.peak_bytes)}  {took}{why}"), "")
        for note in trial.report.notes:
            if note not in self._said:
                self._said.add(note)
                self.say(f"    {note}", "dim")
        if not verdict.fits and not verdict.lower_rung_may_help and verdict.kind is not Kind.CARD_TAKEN:
            self.say("the trainer's output:", "bold")
            self.say(verdict.evidence.strip()[-4000:] or "(it said nothing)", "")
            self.say(f"in full: {trial.folder}", "")

    def proven(self, rung: Rung, same: SameTraining, refused: str) -> None:
        """Shows in one line what the rung's twins showed; nothing if no proof was needed."""
        if refused:
            accepts = "--allow-difference (ladder.keep_update=false in a recipe) launches one with that difference"
            self.say(f"rung {rung.index} is not the asked training: {refused}. Rungs with more accumulation are left out; {accepts}", "red")
        elif same.unproven and not same.counted:
            lead = "except" if all(line.startswith("differs") for line in same.unproven) else "as far as it is proven; not proven:"
            parts = "; ".join(f"{names}: {line}" for line, names in same.unproven.items())
            self.say(f"the same training, {lead} {parts}")
        elif same.layouts:
            steps = "; its steps are counted in the run" if same.counted else ", and so are its steps"
            apart = f"{same.apart or 0:.0e} apart (rounding: the same)"
            self.say(f"the same training: its updates are {apart}; schedule and samples are the same{steps}", "green")
        for note in same.notes:
            self.say(f"  {note}", "dim")

    def fitted(self, fit: Launch) -> None:
        """Shows trials that were made by an earlier launch, and what was given up."""
        job, chosen = fit.job, fit.chosen
        for trial in fit.trials:
            if trial.kept:
                self.trial_ended(trial)
        if chosen is None:
            self._no_fit(fit)
            return
        given_up = job.ladder.given_up(chosen.rung)
        less = ", ".join(f"{name} {rungs.value(used)} instead of {rungs.value(asked)}" for name, (asked, used) in given_up.items())
        asked = job.ladder.effective_batch
        self.say(_given_up(less, _batch_words(chosen, asked), fit.same), "")
        if chosen.rung.effective_batch != asked:
            self.say(_learning_rate(asked, chosen.effective_batch))

    def _no_fit(self, fit: Launch) -> None:
        """Shows why nothing is launched; then a line for each thing that would help, and how to say it."""
        if fit.status is not Status.NO_RUNG_FITS:
            self.say(_stopped(fit), "red")
            return
        beside = bool(fit.trials) and all(trial.verdict.source in OF_MACHINE for trial in fit.trials)
        where = "what the machine has beside its device" if beside else str(fit.job.budget)
        self.say(f"No rung fits {where}: {_why(fit)}", "red")
        for line in [] if beside else _cures(fit):
            self.say(f"  {line}", "")

    def reported(self, trial: Trial) -> None:
        """Draws one trial, phase by phase."""
        rows = []
        for use in trial.report.uses:
            peaks = {name: page.size(getattr(use, f"{name}_bytes")) for name in ("allocated", "reserved", "outside", "device")}
            rows.append({"phase": use.phase, "batches": str(use.batches), "seconds": f"{use.seconds:.2f}", **peaks})
        table(self._console, rows, left=("phase",))
        self.say(f"rung {trial.rung.index}: {trial.rung}; cap {format_size(trial.report.cap_bytes)}", "")

    def launched(self, native: str) -> None:
        self.say("the same without autofit:", "")
        self._console.print(shown(native, style="cyan"), soft_wrap=True)  # one line, which the terminal itself breaks and copies whole

    def finished(self, fit: Launch) -> None:
        """Shows how the full run has ended, and what can be done where it failed; what interrupted a launch tells of that itself."""
        outcome = fit.outcome
        if outcome is None or fit.status in (Status.INTERRUPTED, Status.STOPPED):
            return
        if outcome.done:
            self._done(fit, outcome)
        else:
            self.say(_failure(outcome), "red")
            files = fit.job.folder.attempt(max(1, len(fit.attempts)))
            self.say(f"its output: {files.stderr} and {files.stdout}", "")
            self._going_on(fit)
        self._memory(fit, outcome)

    def _done(self, fit: Launch, outcome: RunRecord) -> None:
        seconds = sum(one.seconds for one in fit.attempts)
        times = f" in {len(fit.attempts)} attempts" if len(fit.attempts) > 1 else ""
        how = ("done", "green") if fit.status is Status.DONE else ("at its end, but not done: it is another training than asked", "red")
        self.say(Text.assemble(how, f"{times} in {format_duration(seconds)}; record: {fit.job.folder.record}"), "")
        self._steps(fit, outcome.optimizer_steps)
        if outcome.ended_at:  # long before its length: a patience of its own, or something has ended it that it hides
            why = f"it says “{outcome.stopped_early}”" if outcome.stopped_early else "what ended it, its words don't say"
            text = f"the last that it told was {outcome.ended_at}; it ended there by itself, with exit status 0: {why}"
            self._line("length", text, "dim" if outcome.stopped_early else "yellow")
        if outcome.evidence:
            text = f"{outcome.evidence}: a traceback is among its last words, and its exit status is 0 all the same"
            self._line("error", text, "yellow")
        for name, value in fit.results.items():
            self._line(name, ", ".join(map(str, value.values())) if isinstance(value, Mapping) else str(value))

    def _steps(self, fit: Launch, made: int | None) -> None:
        """Shows the run's optimizer steps against those due; tells of a run that ended at a rung that isn't proven the same training."""
        steps, rung, chosen = fit.steps, fit.rung, fit.chosen
        if steps is not None and steps.line == "proven":
            self._line("optimizer steps", f"{steps.made}, as due by {steps.due_by}")
        elif steps is not None:
            self._line("optimizer steps", steps.line, "red" if steps.otherwise else "dim")
        elif made is not None and fit.attempts[-1].checkpoint is None:
            other = due if (due := fit.due()) and not due.least <= made <= due.most else None
            itself = f"; {other.words} would be {other.by}: the command's own doing" if other else ""
            self._line("optimizer steps", f"{made}{itself}")
        if rung is not None and chosen is not None and rung.index != chosen.rung.index and (short := fit.certificate(rung).unproven):
            self.say(f"it ended at rung {rung.index}, which isn't proven the same training: {'; '.join(short)}")

    def _going_on(self, fit: Launch) -> None:
        """Shows what a failed run has left, and how to go on from there."""
        if fit.attempts[-1].left:
            self.say(f"checkpoint left: {fit.attempts[-1].left[0]}", "")
        elif fit.job.adapter.asked.keeps is None:
            known = "autofit knows no checkpoint to go on from (trainer.args.resume says how this script does)"
            self.say(f"{known}; what the script itself has saved is where it put it", "")
            return
        self.say(how_to_go_on(fit.job.folder.path), "")

    def _memory(self, fit: Launch, outcome: RunRecord) -> None:
        """Shows the run's memory beside its trial's, and what it lost to memory on the way."""
        memory = fit.memory
        if memory is not None and memory.ratio is not None:
            used = f"run {format_size(memory.run_peak_bytes)}, trial {format_size(memory.trial_peak_bytes)} ({memory.ratio:.1%})"
            self._line("memory", f"{used}, cap {format_size(memory.cap_bytes)}, budget {format_size(memory.budget_bytes)}")
            if above_trial(memory):
                self.say(f"the run needed more than its trial had shown: please report this, with {fit.job.folder.path}")
        for remark in fit.attempts[-1].remarks:
            self._line("on its way", remark, "yellow")
        for line in outcome.lost_to_memory:
            self.say(f"lost to memory, and the trainer went on: {line}")

    def say(self, words: str | Text, style: str = "yellow") -> None:
        say(self._console, words, style=style)

    def _line(self, label: str, said: str, style: str = "") -> None:
        """Prints a label, and a paragraph beside it."""
        self.say(f"{label:<{max(8, len(label) + 2)}}{said}", style)


def _batch_of(job: Job) -> str:
    """Tells in words what the ladder does to the effective batch."""
    effective, last = job.ladder.effective_batch, min(rung.effective_batch for rung in job.ladder.rungs)
    if not effective:
        return "the batch is the command's own"
    if job.adapter.asked.unseen_step:
        return "the effective batch stays the script's own on all of them: the first step that is seen shows it"
    if last == effective:
        return f"the effective batch stays {effective} on all of them"
    return f"the effective batch goes down with the micro-batch, from {effective} to {last} at the last: accepted"


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
    if same is not None and same.unproven and not same.counted:
        unsaid = batch.removesuffix(", as asked")
        return f"given up: {f'{text} ' if text else ''}({unsaid}; not proven the same training: {'; '.join(same.unproven)})"
    counted = "; the same training, whose steps the run counts" if same is not None and same.counted else ""
    return f"given up: {text or 'nothing'} ({batch}{counted})"


_HOW = {
    Ended.DIVERGED: "has diverged: its loss was not finite", Ended.STALLED: "stood still and was ended",
    Ended.UNWRITABLE: "failed since it could not write",
}  # fmt: skip


def _failure(outcome: RunRecord) -> str:
    """Tells in a sentence how a full run failed. The exit status says something only where the run ended by itself."""
    by = f"was ended by {signal.Signals(-outcome.returncode).name}" if outcome.returncode < 0 else ""
    how = _HOW.get(Ended(outcome.ended), by or f"failed with exit status {outcome.returncode}")
    line = outcome.memory_failure["line"] if outcome.memory_failure else outcome.evidence
    return f"the full run {how}{f': {line}' if line else ''}"


def _why(fit: Launch) -> str:
    """Tells what was tried, and what ruled out the rest; why each trial failed stands in its own line."""
    many, tried = len(fit.job.ladder.rungs), len({trial.rung.index for trial in fit.trials})
    asked = "" if tried == many else ", which rule out the others"
    asked += ", full runs of this launch have ruled out some" if fit.reuse.failures else ""
    refused = f"; with more accumulation than asked {fit.refused}" if fit.refused else ""
    unturned = f"; the micro-batch isn't turned: {why}" if (why := fit.unturned or fit.job.adapter.asked.unturned) else ""
    return f"{tried} of {many} rungs tried{asked}{refused}{unturned}."


def _cures(fit: Launch) -> Iterator[str]:
    yield _more_memory(fit)
    if type(fit.job.adapter).general and CHECKPOINTING not in fit.job.ladder.asked.values:
        yield "autofit run --checkpointing -- ... checkpoints the model's repeated modules: slower, the same training"
    asked = fit.job.ladder.effective_batch
    for could in fit.could_fit:
        fits = f"{could.rung} is estimated to fit" if could.rung is not None else "nothing tells whether it would be enough"
        less = _learning_rate(asked, could.rung.effective_batch) if could.rung and could.rung.effective_batch != asked else ""
        yield f"autofit run {could.flag} -- ... ({could.key} in a recipe), another training: {fits}. {less}"


def _more_memory(fit: Launch) -> str:
    """The line on how much memory the cheapest of the tried rungs would need, where that was seen."""
    need, budget = least_need(fit.trials), fit.job.budget
    if need is None or (not need.measured and need.needed_bytes <= budget.cap_bytes):
        return "more memory (how much was not seen), a lower floor or another wheel of the ladder"
    rung, least = need.trial.rung, "" if need.measured else "at least "
    needed = -(-devices.budget_for(need.needed_bytes, budget.headroom, kind=budget.kind) // MIB)
    needs = f"needs {least}{format_size(need.needed_bytes)} in phase {need.trial.verdict.phase}"
    return f"{least}device.memory={needed}MiB: rung {rung.index} ({rung}) {needs}"


def _stopped(fit: Launch) -> str:
    """The sentence for a trial that ended in a way no lower rung would cure, and who is at fault."""
    last = fit.trials[-1].verdict if fit.trials else None
    if last is None or last.kind is Kind.CARD_TAKEN:
        return f"Stopped: others hold the card{f' ({last.why})' if last else ''}. Wait until it is free, or set device.share=true."
    if last.kind is not Kind.VACUOUS:
        return f"Stopped: the trainer {last.kind} in a trial, which no lower rung would cure."
    ours = f"If the command trains and validates by itself, that is a fault of autofit's: please report it, with {fit.job.folder.path}."
    return f"Stopped: the trial proved nothing, which no lower rung would cure ({last.why}). {ours}"


def _learning_rate(asked: int, used: int) -> str:
    """The sentence on what another effective batch means for training."""
    less = asked / used
    rule = f"as a rule divide it by {less:g} for SGD, by {less**0.5:.2g} for Adam. Nothing of that is done for you"
    return f"The effective batch is {used} instead of {asked}: learning rate, warm-up and schedule were chosen for another; {rule}."
