"""Draws a launch on the terminal: its plan, trials, run and summary. Takes plain values; decides nothing."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from launcher.cli import prose, tables
from launcher.cli.tables import Column
from launcher.ladder.verdict import Kind
from launcher.machine import headroom
from launcher.shared import activity
from launcher.shared.report import Phase
from launcher.shared.sizes import GIB, MIB, format_size

if TYPE_CHECKING:  # what is drawn comes from elsewhere; a fault of the command line is told without loading the story
    from launcher.engine.state import Fit, Need
    from launcher.errors import Fault
    from launcher.forecast.lookahead import Ahead
    from launcher.ladder.rungs import Ladder, Rung
    from launcher.ladder.same_training import SameTraining
    from launcher.machine.devices import Budget
    from launcher.run.attempt import Attempt, Move, Outcome
    from launcher.trial.job import Job
    from launcher.trial.trial import Trial

ALLOW_BATCH = "--allow-batch"
NEAR_CAP = 0.97
"""A fit above this part of its cap is told to be close."""
_COLOURS = {Kind.FITS: "green", Kind.OUT_OF_MEMORY: "red", Kind.SPILLED: "red", Kind.CARD_TAKEN: "yellow", Kind.ALTERED: "yellow"}


class Display:
    """Draws a launch on ``console``. On a terminal a spinner shows the rung being tried; elsewhere a line does."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: set[str] = set()
        self._trial, self._trying = "", ExitStack()

    def plan(self, job: Job) -> None:
        from launcher.ladder import throughput

        recipe, budget = job.recipe, job.budget
        most = throughput.most_trials(job.ladder, (), recipe.ladder)
        self._labelled(recipe.name, recipe.summary, label_style="bold")
        self._labelled("asked", _words(job.ladder.asked))
        self._labelled("device", str(budget))
        self._labelled("fits", _held(budget))
        rungs, trials = _counted(len(job.ladder.rungs), "rung"), _counted(most, "trial")
        self._labelled("ladder", f"{rungs}; {_batch_of(job)}; at most {trials} to find the one that fits")
        self._labelled("record", str(job.folder.path))
        for note in (*job.budget.notes, *job.adapter.notes()):
            self._labelled("note", note, label_style="yellow")

    def _labelled(self, label: str, words: str, *, label_style: str = "dim") -> None:
        """A label, and a paragraph beside it."""
        width = max(8, len(label) + 2)
        self._say(Text.assemble((f"{label:<{width}}", label_style), words), hang=8)

    def _say(self, words: str | Text, *, style: str = "", hang: int = 0) -> None:
        prose.say(self._console, words, style=style, hang=hang)

    def misread(self, fit: Fit) -> None:
        """The command ran another batch than was read, and that is what is fitted now."""
        line = f"misread: {_misread(fit)}. What ran is what was asked: the ladder is made anew of it"
        self._console.print(Text(line, style="yellow"), soft_wrap=True)

    def kept(self, fit: Fit) -> None:
        """Whether the trials of an earlier launch stand for this one's, what has changed since, or why none can be kept."""
        from launcher.history.kept_fits import day

        stands = fit.standing
        if stands is None:
            return
        for line in stands.said:
            self._once(line, style="yellow")
        if stands.used and stands.certificate is not None:
            one = stands.certificate
            words = f"kept fit of {day(one.made)}: nothing that it hangs on has changed, no trial is made (trial.fresh=true makes them)"
            self._once(words, style="green")
        elif stands.why:
            self._once(stands.why, style="dim")

    def _once(self, line: str, *, style: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line, style=style, hang=len(line) - len(line.lstrip()))

    def foreseen(self, ahead: Ahead) -> None:
        """Which rung is looked at first, and why; nothing of it is proven."""
        if ahead.named is not None:
            by = " by what earlier launches' trials needed" if ahead.by_trials else ""
            self._once(f"rung {ahead.named.index} is predicted to be the first that fits{by}; trials decide", style="dim")
        elif ahead.why_not:
            self._once(f"no forecast ({ahead.why_not[0]}): trials alone lead", style="dim")
        else:
            self._once("no rung is predicted to fit; trials decide", style="dim")

    def proven(self, same: SameTraining, rung: Rung, *, refused: str) -> None:
        """What twins of this rung said, in one line; nothing where nothing had to be shown."""
        if not refused and not same.unproven and not same.layouts:
            return
        if refused:
            text, style = (
                f"rung {rung.index} is not the asked training: {refused}. Rungs with more accumulation than asked are left out",
                "red",
            )
        elif not same.unproven:
            text, style = f"the same training: updates at {', '.join(same.layouts)} are {same.apart or 0:.0e} apart", "green"
            text += "; steps, schedule and samples are the same"
        else:
            text, style = f"the same training, as far as it is proven; not proven: {'; '.join(same.unproven)}", "yellow"
        self._say(text, style=style)
        for note in same.notes:
            self._say(f"  {note}", style="dim", hang=2)

    def timed(self, speeds: Mapping[int, float], fastest: Rung) -> None:
        """Samples a second by micro-batch, and whose rung is taken for it."""
        told = ", ".join(f"{micro} a time: {speed:.3g} samples/s" for micro, speed in speeds.items()) or "no trial was timed"
        self._say(f"throughput: {told}; micro-batch {fastest.micro_batch} is taken", style="dim")

    def trying(self, rung: Rung, number: int, *, most: int | None = None, seconds: float | None = None, why: str = "") -> None:
        """``most``: trials that this launch makes at most; ``seconds``: what one has taken so far; ``why`` it is just this rung."""
        if why:
            self._say(f"rung {rung.index} next: {why}", style="dim")
        so_far = f" (about {_duration(seconds)} each so far)" if seconds else ""
        of = f" of at most {most}" if most else ""
        self._trial = f"trial {number}{of}{so_far}: rung {rung.index}  {_words(rung)}"
        if not self._console.is_terminal:
            self._console.print(self._trial, highlight=False, soft_wrap=True)
        self._trying.enter_context(activity.doing(self._trial, told=True))

    def queued(self, holder: str) -> None:
        """Another launch has the device; its end is waited for."""
        cure = "device.when_taken=stop would end it here, device.share=true for both would share the device"
        self._say(f"waiting for the turn of {holder} to end ({cure})", style="yellow")

    def waiting(self, holder: str, timeout_s: float) -> None:
        """Others hold the card; it is waited for."""
        cure = "device.when_taken=stop would end it here"
        words = f"the card is taken: {holder}. Waiting up to {_duration(timeout_s)} for it ({cure})"
        self._say(words, style="yellow")

    def taken(self, holder: str) -> None:
        """Others hold the card where the full run was to be launched."""
        words = f"not launched: the card is taken: {holder}. The command above is what fits; start it when the card is free"
        self._say(words, style="red")

    def otherwise(self, line: str, what: str) -> None:
        """The run has just said that it goes on otherwise than asked."""
        self._say(f"autofit: the run {what}" + (f": {line}" if line else ""), style="yellow")

    def phase(self, phase: str, seconds: float, *, new: bool) -> None:
        """The trial under way is in this phase, so many seconds after its start; without a terminal only a new phase is told."""
        if not new:
            return
        activity.now(f"{self._trial}  {phase}")
        if not self._console.is_terminal:
            self._say(f"            {phase} at {seconds:.1f} s", style="dim")

    def tried(self, trial: Trial, job: Job) -> None:
        self._trying.close()
        verdict = trial.verdict
        line = Text.assemble(
            f"  rung {trial.rung.index:>3}  ",
            (f"{verdict.kind.value:<14}", _COLOURS.get(verdict.kind, "magenta")),
            f" {_size(verdict.peak_bytes):>9}  {trial.seconds:5.1f} s  ",
            _room(trial, job) if verdict.fits else verdict.why,
        )
        self._say(line, hang=12)
        for note in trial.report.notes:
            self._once(f"            {note}", style="dim")
        if not verdict.fits and not verdict.lower_rung_may_help and verdict.kind is not Kind.CARD_TAKEN:
            self._say("the trainer's own words:", style="bold")
            self._say(verdict.evidence.strip()[-4000:] or "(it said nothing)", hang=4)
            self._say(f"all of it: {trial.folder}")

    def summary(self, fit: Fit) -> None:
        """The ladder as far as it was walked, and what was given up."""
        job = fit.job
        columns = [Column("rung"), *(Column(wheel.name, shared=True) for wheel in job.ladder.wheels), Column("accum", shared=True)]
        columns += [Column(name) for name in ("peak", "per sample", "full run", "trial")] + [Column("verdict", right=False)]
        rows = [[_cell(cell, bold=trial.verdict.fits) for cell in self._row(trial, job)] for trial in fit.trials]
        if rows:
            tables.show(self._console, columns, rows, title=f"{job.recipe.name} on {job.budget}")
        if fit.chosen is None:
            self._why_none(fit)
            return
        given_up = job.ladder.given_up(fit.chosen.rung)
        text = ", ".join(f"{name} {_value(used)} instead of {_value(asked)}" for name, (asked, used) in given_up.items())
        batch, asked_batch = fit.chosen.effective_batch, job.ladder.effective_batch
        self._say(_given_up(text, _batch_words(fit.chosen, asked_batch), fit.same), hang=10)
        if fit.chosen.rung.effective_batch != asked_batch:
            self._say(_learning_rate(asked_batch, batch), style="yellow")

    def _row(self, trial: Trial, job: Job) -> Iterable[str | Text]:
        report, verdict = trial.report, trial.verdict
        per_sample = report.step_seconds / trial.rung.micro_batch if report.step_seconds else None
        estimate = job.adapter.estimate_seconds(trial.rung, report) if verdict.fits else None
        yield str(trial.rung.index)
        yield from (_value(trial.rung.values[wheel.name]) for wheel in job.ladder.wheels)
        yield str(trial.rung.accumulation)
        yield _size(verdict.peak_bytes)
        yield f"{per_sample * 1000:.1f} ms" if per_sample else "-"
        yield _duration(estimate) if estimate else "-"
        yield f"{trial.seconds:.1f} s" if not trial.kept else "kept"
        where = "" if verdict.fits else f" in {verdict.phase}"
        yield Text.assemble((verdict.kind.value, _COLOURS.get(verdict.kind, "magenta")), where)

    def launching(self, fit: Fit) -> None:
        assert fit.command is not None
        self._say("the same without autofit:")
        prose.command(self._console, fit.command.shell(), before="  ")
        self._console.print()

    def heartbeat(self, seconds: float, used_bytes: int, peak_bytes: int, job: Job) -> None:
        """How much of the budget the run uses, where its trainer can't tell (a CPU: it shows 0G)."""
        if used_bytes and job.budget.kind == "cpu":
            budget = format_size(job.budget.budget_bytes)
            words = f"autofit: {_duration(seconds)}, memory {format_size(used_bytes)} of {budget} (peak {format_size(peak_bytes)})"
            self._say(words, style="dim")

    def failed_attempt(self, fit: Fit, attempt: Attempt) -> None:
        """An attempt has ended before its time: what of, and by how much its fit was wrong."""
        words = f"autofit: attempt {attempt.number} ended after {_duration(attempt.seconds)}: {attempt.ended.value} in {attempt.phase}"
        self._say(f"{words}: {attempt.evidence}" if attempt.evidence else words, style="red")
        wrong = attempt.wrong_by(fit.chosen.verdict.peak_bytes if fit.chosen is not None else 0)
        if wrong is not None:
            short = f"the fit was wrong by {format_size(wrong)}: the run needed that much more than its trial had shown"
            taken = "the run needed no more than its trial had shown: memory was taken from it"
            self._say(f"autofit: {short if wrong > 0 else taken}", style="yellow")

    def recovering(self, move: Move) -> None:
        """What is done next."""
        from launcher.run.attempt import Stop, Wait

        if isinstance(move, Stop):
            self._say(f"autofit: nothing more is tried: {move.why}", style="red")
            return
        go_on = move.then if isinstance(move, Wait) else move
        start = f"from {go_on.checkpoint}" if go_on.checkpoint is not None else "from the beginning"
        workers = f", {go_on.workers} loader workers" if go_on.workers is not None else ""
        line = f"autofit: {go_on.why}. Rung {go_on.rung.index} ({_words(go_on.rung)}{workers}), {start}"
        self._say(line, style="yellow")

    def ended(self, fit: Fit) -> None:
        outcome = fit.outcome
        assert outcome is not None
        if outcome.done:
            seconds = sum(one.seconds for one in fit.attempts)
            times = f" in {len(fit.attempts)} attempts" if len(fit.attempts) > 1 else ""
            as_asked = fit.steps is None or not fit.steps.otherwise
            how = ("done", "green") if as_asked else ("at its end, but not done: it is another training than asked", "red")
            self._say(Text.assemble(how, f"{times} in {_duration(seconds)}; record: {fit.job.folder.final}"))
            self._steps(fit)
            for name, value in _flat(fit.results):
                self._say(f"  {name:<28} {value}")
        else:
            self._say(_failure(outcome), style="red")
            files = fit.job.folder.attempt(max(1, len(fit.attempts)))
            self._say(f"its words: {files.stderr} and {files.stdout}")
            self._going_on(fit)
        self._memory(fit)

    def _steps(self, fit: Fit) -> None:
        """The run's optimizer steps against those due; and a run that ended at a rung that nobody compared."""
        steps, same = fit.steps, fit.certificate(fit.rung) if fit.rung is not None else None
        if steps is not None and steps.line == "proven":
            self._say(f"  {'optimizer steps':<28} {steps.made}, as due by {steps.due.by}", hang=31)
        elif steps is not None:
            self._say(f"  {'optimizer steps':<28} {steps.line}", style="red" if steps.otherwise else "dim", hang=31)
        if fit.rung is not None and fit.chosen is not None and fit.rung.index != fit.chosen.rung.index and same is not None:
            short = "; ".join(dict.fromkeys(line.split(" ", 1)[1] for line in same.unproven))
            if short:
                self._say(f"it ended at rung {fit.rung.index}, which isn't proven the same training: {short}", style="yellow", hang=2)

    def _going_on(self, fit: Fit) -> None:
        """What a failed run has left, and how to go on from there."""
        from launcher.adapter.protocol import resuming
        from launcher.history.runs import how_to_go_on

        if fit.attempts and fit.attempts[-1].left:
            self._say(f"checkpoint left: {fit.attempts[-1].left[0]}")
            prose.command(self._console, f"autofit resume {shlex.quote(str(fit.job.folder.path))}", before="to go on from it: ")
            return
        if fit.chosen is None or fit.command is None:
            return
        if fit.attempts and resuming(fit.job.adapter).keeps() is not None:  # it was looked for, and what is there is none
            self._say(how_to_go_on(fit.job.folder.path, fit.attempts[-1].goes_on_from))
            return
        left = fit.job.adapter.going_on(fit.chosen.rung, fit.command, folder=fit.job.folder.path)
        if left is None:
            self._say("no checkpoint is left to go on from")
            return
        self._say(f"checkpoint left: {left.checkpoint}")
        prose.command(self._console, left.command.shell(), before="to go on from it: ")

    def _memory(self, fit: Fit) -> None:
        """The run held against its trial, and what it lost to memory on the way."""
        memory, lost = fit.memory, fit.outcome.lost_to_memory if fit.outcome is not None else ()
        if memory is not None and memory.ratio is not None:
            run, trial, cap, budget = map(
                format_size, (memory.run_peak_bytes, memory.trial_peak_bytes, memory.cap_bytes, memory.budget_bytes)
            )
            self._say(f"  {'memory':<28} run {run}, trial {trial} ({memory.ratio:.1%}), cap {cap}, budget {budget}", hang=31)
            if memory.above_trial:
                self._say(f"the run needed more than its trial had shown: please report this, with {fit.job.folder.path}", style="yellow")
        for line in lost:
            self._say(f"lost to memory, and the trainer went on: {line}", style="yellow")

    def report(self, trial: Trial, job: Job) -> None:
        """One trial, phase by phase."""
        sizes = ("allocated", "reserved", "outside", "device")
        columns = [
            Column("phase", right=False),
            *(Column(name) for name in ("batches", "seconds")),
            *(Column(name, shared=True) for name in sizes),
        ]
        rows = []
        for use in trial.report.uses:
            held = (use.allocated_bytes, use.reserved_bytes, use.outside_bytes, use.device_bytes)
            rows.append([Text(cell) for cell in (use.phase, str(use.batches), f"{use.seconds:.2f}", *map(_size, held))])
        if rows:
            tables.show(self._console, columns, rows, title=f"rung {trial.rung.index}: {_words(trial.rung)}")
        self._say(f"cap {format_size(job.budget.cap_bytes)}; {trial.report.optimizer_steps} optimizer steps")

    def ladder(self, ladder: Ladder, *, title: str = "") -> None:
        """Every rung, numbered."""
        columns = [
            Column("rung"),
            *(Column(wheel.name, shared=True) for wheel in ladder.wheels),
            Column("accum"),
            Column("effective", shared=True),
        ]
        rows = [
            [
                Text(cell)
                for cell in (str(rung.index), *map(_value, rung.values.values()), str(rung.accumulation), str(rung.effective_batch))
            ]
            for rung in ladder.rungs
        ]
        tables.show(self._console, columns, rows, title=title)

    def faults(self, faults: Iterable[Fault]) -> None:
        """What is wrong with the input, one fault a paragraph."""
        for fault in faults:
            place = ": ".join(part for part in (fault.where, fault.key) if part)
            self._say(Text.assemble((f"{place}: " if place else "", "bold"), (fault.found, "red"), _then(fault)))

    def _why_none(self, fit: Fit) -> None:
        """Why nothing is launched, what would help, and what would fit."""
        if fit.status == "card_taken" or fit.nearest is None or fit.nearest_command is None:
            self._say(_why_none(fit), style="red")
            return
        job, asked = fit.job, fit.job.ladder.effective_batch
        self._say(
            f"No rung fits {job.budget} with the effective batch of {asked}. Nearest that fits, really tried "
            f"({format_size(fit.nearest.verdict.peak_bytes)}):", style="red",
        )  # fmt: skip
        prose.command(self._console, fit.nearest_command.shell(), before="  ")
        accepts = f"autofit run {ALLOW_BATCH} -- ... (ladder.keep_batch=false in a recipe) accepts that. "
        self._say(accepts + _learning_rate(asked, fit.nearest.effective_batch), style="red")


def _then(fault: Fault) -> str:
    """The cure behind what was found, each a sentence; a dot is never glued to a path that it would be copied with."""
    end = " " if fault.found.endswith((".", "!", "?", ":")) else ". "
    return f"{end}{fault.cure}" if fault.cure else ""


def _cell(cell: str | Text, *, bold: bool) -> Text:
    text = cell if isinstance(cell, Text) else Text(cell)
    text.style = "bold" if bold else text.style
    return text


def _held(budget: Budget) -> str:
    """What makes a trial a fit, and how far it may go for that to be seen."""
    room = headroom.words(budget.budget_bytes, budget.headroom, kind=budget.kind)
    below = f"what stays below {format_size(budget.cap_bytes)} ({room} headroom)"
    if budget.ceiling_bytes <= budget.cap_bytes:
        return f"{below}; a trial is given no more"
    return f"{below}; a trial may take up to {format_size(budget.ceiling_bytes)}, so that what it needs is seen"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _room(trial: Trial, job: Job) -> str:
    """How near the cap a trial that fits came."""
    cap, peak = trial.report.cap_bytes or job.budget.cap_bytes, trial.verdict.peak_bytes
    if not peak:
        return ""
    near = ", close to it" if peak > NEAR_CAP * cap else ""
    return f"{format_size(cap - peak)} below the cap of {format_size(cap)}{near}"


def _why_none(fit: Fit) -> str:
    """Why nothing is launched, and what would help."""
    job = fit.job
    if fit.status == "misread" and fit.misread is not None:
        from launcher.trial import rung_zero

        return f"Stopped, nothing was launched: {_misread(fit)}. {rung_zero.cure(fit.misread)}"
    if fit.status == "card_taken":
        return f"Stopped: others hold the card ({fit.trials[-1].verdict.why}). Wait until it is free, or set device.share=true."
    if fit.refused:
        return _not_the_asked(fit)
    if fit.trials and not fit.trials[-1].verdict.lower_rung_may_help:
        return _stopped(fit)
    disproved = "" if fit.standing is None or not fit.standing.against else ", full runs of this launch have ruled out some"
    tried = f"{len(fit.trials)} of {len(job.ladder.rungs)} rungs tried{disproved}, the others ask as much as one that failed"
    from launcher.engine.state import least_need

    if any(trial.verdict.otherwise for trial in fit.trials):
        return f"No rung fits {job.budget}: {tried}. {_memory_for(least_need(fit.trials), job)}{_not_turned(fit)}"
    cure = _memory_for(least_need(fit.trials), job) + "Lower a floor, add a wheel, or give it more memory."
    if fit.trials and all(trial.verdict.phase == Phase.FINISH for trial in fit.trials):
        cure = "All of them failed at the end of a run (final validation, figures): set trainer.args.plots=False, or give it more memory."
    return f"No rung fits {job.budget}: {tried}. {cure}"


def _not_the_asked(fit: Fit) -> str:
    """Rungs fit, and none of them is the asked training."""
    return (
        f"No rung fits {fit.job.budget} that is the asked training: with more accumulation {fit.refused}; without it none fits. "
        f"Give it more memory, or another wheel (sizes, lengths, checkpointing); autofit run {ALLOW_BATCH} -- ... "
        "(ladder.keep_batch=false in a recipe) accepts another effective batch."
    )


def _misread(fit: Fit) -> str:
    """What was read of the command, and what it ran."""
    from launcher.adapter.protocol import own_words_of
    from launcher.trial import rung_zero

    words = own_words_of(fit.job.adapter)
    assert fit.misread is not None and words is not None
    return rung_zero.words(fit.misread, words.place)


def _stopped(fit: Fit) -> str:
    """A trial has ended in a way that no lower rung would cure: whose fault that is."""
    last = fit.trials[-1]
    if last.verdict.kind is not Kind.VACUOUS:
        return f"Stopped: the trainer {fit.status} in a trial, which no lower rung would cure."
    return (
        f"Stopped: the trial proved nothing, which no lower rung would cure ({last.verdict.why}). If the command trains and validates by "
        f"itself, that is a fault of autofit's, not of the script: please report it, with {fit.job.folder.path}."
    )


def _not_turned(fit: Fit) -> str:
    """Rungs at which a setting did not run as autofit had told the trainer: nothing that the person did."""
    names = dict.fromkeys(name for trial in fit.trials for name in trial.verdict.otherwise)
    last = next(trial for trial in reversed(fit.trials) if trial.verdict.otherwise)
    words = "".join(f" trainer.args.spelled.{name}=..." for name in names) if type(fit.job.adapter).general else ""
    cure = f" Say how it is really spelled, before --:{words}." if words else ""
    return (
        f"autofit turned {' and '.join(names)}, and {last.verdict.why}: it has mistaken how that is said; the script is not at fault."
        f"{cure} Please report it, with {fit.job.folder.path}."
    )


def _memory_for(need: Need | None, job: Job) -> str:
    """How much memory the cheapest rung that was tried would need, as it was seen."""
    if need is None:
        return ""
    budget = headroom.budget_for(need.needed_bytes, job.budget.headroom, kind=job.budget.kind)
    rounded = -(-budget // MIB) if budget < GIB else -(-budget * 10 // GIB) / 10
    unit = "MiB" if budget < GIB else "GiB"
    least = "" if need.measured else "at least "
    return (
        f"Nearest: rung {need.trial.rung.index} ({_words(need.trial.rung)}) needs {least}{format_size(need.needed_bytes)} in phase "
        f"{need.trial.verdict.phase}, which {least}device.memory={rounded:g}{unit} holds. "
    )


def _batch_of(job: Job) -> str:
    """What the ladder does to the effective batch."""
    effective, last = job.ladder.effective_batch, min(rung.effective_batch for rung in job.ladder.rungs)
    processes = f" ({job.ladder.asked.world_size} processes)" if job.ladder.asked.world_size > 1 else ""
    if last == effective:
        return f"the effective batch stays {effective}{processes} on all of them"
    return f"the effective batch goes down with the micro-batch, from {effective}{processes} to {last} at the last: accepted"


def _batch_words(trial: Trial, asked: int) -> str:
    if trial.rung.effective_batch != asked:
        return f"effective batch {trial.effective_batch} instead of {asked}"
    if trial.effective_batch != asked:
        return f"effective batch {trial.effective_batch}, as the trial saw it; the command's words say {asked}"
    return f"effective batch {asked}, as asked" if trial.batch_seen else f"effective batch {asked} as told; the trial could not see it"


def _given_up(text: str, batch: str, same: SameTraining | None) -> str:
    """What the rung gives up; that it gives up nothing, or is as asked, only where that is proven."""
    if same is None or not same.unproven:
        return f"given up: {text or 'nothing'} ({batch})"
    short = "; ".join(dict.fromkeys(line.split(" ", 1)[1] for line in same.unproven))
    unsaid = batch.removesuffix(", as asked")
    return f"given up: {f'{text} ' if text else ''}({unsaid}; not proven the same training: {short})"


def _learning_rate(asked: int, used: int) -> str:
    """What another effective batch means for training."""
    less = asked / used
    return (
        f"The effective batch is {used} instead of {asked}: an epoch has {less:g} times the optimizer steps, so that what is counted in "
        f"steps (warm-up, schedules) ends {less:g} times as early, and the learning rate was chosen for another batch; as a rule divide it "
        f"by {less:g} for SGD, by {less**0.5:.2g} for Adam. Nothing of that is done for you."
    )


def _failure(outcome: Outcome) -> str:
    """How a full run failed, in a sentence. The exit status says something only where the run ended by itself."""
    from launcher.run.attempt import Ended

    evidence = f": {outcome.evidence}" if outcome.evidence else ""
    if outcome.ended is Ended.DIVERGED and outcome.returncode == 0:
        return f"the full run came to its end, but is not done: it has diverged{evidence}"
    by_autofit = {
        Ended.DIVERGED: "diverged (its loss was not finite)", Ended.STALLED: "stood still", Ended.SPILLED: "spilled out of the card",
    }  # fmt: skip
    if outcome.ended in by_autofit:
        return f"the full run {by_autofit[outcome.ended]} and was ended{evidence}"
    if outcome.ended in (Ended.DISK_FULL, Ended.READ_ONLY):
        return f"the full run failed since it could not write{evidence}"
    reason = f": {outcome.memory_failure.line}" if outcome.memory_failure else ""
    if outcome.returncode < 0:
        return f"the full run was ended by {signal.Signals(-outcome.returncode).name}{reason}"
    return f"the full run failed with exit status {outcome.returncode}{reason}"


def _words(rung: Rung) -> str:
    values = {name: value for name, value in rung.values.items() if value not in (None, False)}
    return ", ".join(f"{name} {_value(value)}" for name, value in values.items()) + f", accumulation {rung.accumulation}"


def _value(value: object) -> str:
    return {True: "on", False: "off", None: "-"}.get(value, str(value)) if isinstance(value, bool) or value is None else str(value)


def _size(size: int) -> str:
    return format_size(size) if size else "-"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _flat(results: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in results.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        elif isinstance(value, (list, tuple)):
            yield name, ", ".join(map(str, value))
        elif value is not None:
            yield name, f"{value:.4f}" if isinstance(value, float) else str(value)
