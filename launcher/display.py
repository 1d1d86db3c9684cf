"""What a person sees: plain values in, tables on the terminal out. No decisions here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.status import Status
from rich.table import Table
from rich.text import Text

from launcher import headroom
from launcher.contract.report import Phase
from launcher.sizes import GIB, MIB, format_size
from launcher.verdict import Kind

if TYPE_CHECKING:  # what is drawn comes from elsewhere; a fault of the command line is told without loading the story
    from launcher.errors import Fault
    from launcher.fit import Fit, Need
    from launcher.forecast.needs import Ahead
    from launcher.job import Job
    from launcher.ladder import Ladder, Rung
    from launcher.made import Made
    from launcher.recover import Move
    from launcher.sameness import SameTraining
    from launcher.supervise import Outcome
    from launcher.trainers.base import Command
    from launcher.trial import Trial

ALLOW_BATCH = "--allow-batch"
NEAR_CAP = 0.97
"""A fit above this part of its cap is told to be close."""
_COLOURS = {Kind.FITS: "green", Kind.OUT_OF_MEMORY: "red", Kind.SPILLED: "red", Kind.CARD_TAKEN: "yellow", Kind.ALTERED: "yellow"}


class Display:
    """Draws a launch on ``console``. On a terminal a spinner shows the rung being tried; elsewhere a line does."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner: Status | None = None
        self._said: set[str] = set()
        self._trial = ""

    def plan(self, job: Job) -> None:
        recipe, asked, budget = job.recipe, job.ladder.asked, job.budget
        room = headroom.words(budget.budget_bytes, budget.headroom, kind=budget.kind)
        lines = [
            f"[bold]{escape(recipe.name)}[/]  {escape(recipe.summary)}",
            f"asked   {escape(_words(asked))}",
            f"device  {escape(str(budget))}; trials are held to {format_size(budget.cap_bytes)} ({room} headroom)",
            f"ladder  {len(job.ladder.rungs)} rungs; {_batch_of(job)}",
            f"record  {escape(str(job.folder.path))}",
        ]
        lines += [f"[yellow]note[/]    {escape(note)}" for note in (*job.budget.notes, *job.adapter.notes())]
        self._console.print(Panel("\n".join(lines), box=box.ROUNDED, title="autofit", title_align="left", expand=False))

    def kept(self, fit: Fit) -> None:
        """Whether the trials of an earlier launch stand for this one's, what has changed since, or why none can be kept."""
        from launcher.certificates import day

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
            self._console.print(Text(line, style=style), soft_wrap=True)

    def foreseeing(self) -> None:
        words = "foreseeing what the rungs need (no memory is used for it)"
        if self._console.is_terminal:
            self._spinner = self._console.status(words)
            self._spinner.start()
        else:
            self._console.print(words, highlight=False)

    def foreseen(self, ahead: Ahead) -> None:
        """Which rung is looked at first, and why; nothing of it is proven."""
        self._stop_spinner()
        if ahead.named is not None:
            by = " by what earlier launches' trials needed" if ahead.by_trials else ""
            self._once(f"rung {ahead.named.index} is predicted to be the first that fits{by}; trials decide", style="dim")
        elif ahead.why_not:
            self._once(f"no forecast ({ahead.why_not[0]}): trials alone lead", style="dim")
        else:
            self._once("no rung is predicted to fit; trials decide", style="dim")

    def proving(self, rung: Rung) -> None:
        """Twins of this rung are run."""
        words = f"is an update at rung {rung.index} the asked one? Short runs of the same rows in other layouts say it"
        if self._console.is_terminal:
            self._spinner = self._console.status(words)
            self._spinner.start()
        else:
            self._console.print(Text(words, style="dim"))

    def proven(self, same: SameTraining, rung: Rung, *, refused: str) -> None:
        """What they said, in one line; nothing where nothing had to be shown."""
        self._stop_spinner()
        if not same.layouts and same.verdict != "not_comparable":
            return
        if refused:
            text, style = (
                f"rung {rung.index} is not the asked training: {refused}. Rungs with more accumulation than asked are left out",
                "red",
            )
        elif same.proven:
            text, style = f"the same training: updates at {', '.join(same.layouts)} are {same.apart or 0:.0e} apart", "green"
            text += "; steps, schedule and samples are the same"
        else:
            text, style = f"the same training, as far as it is proven; not proven: {'; '.join(same.short)}", "yellow"
        self._console.print(Text(text, style=style), soft_wrap=True)
        for note in same.notes:
            self._console.print(Text(f"  {note}", style="dim"), soft_wrap=True)

    def timed(self, speeds: Mapping[int, float], fastest: Rung) -> None:
        """Samples a second by micro-batch, and whose rung is taken for it."""
        told = ", ".join(f"{micro} a time: {speed:.3g} samples/s" for micro, speed in speeds.items()) or "no trial was timed"
        self._console.print(Text(f"throughput: {told}; micro-batch {fastest.micro_batch} is taken", style="dim"), soft_wrap=True)

    def trying(self, rung: Rung, number: int) -> None:
        self._trial = f"trial {number}: rung {rung.index}  {_words(rung)}"
        if self._console.is_terminal:
            self._spinner = self._console.status(self._trial)
            self._spinner.start()
        else:
            self._console.print(self._trial, highlight=False)

    def queued(self, holder: str) -> None:
        """Another launch has the device; its end is waited for."""
        cure = "device.when_taken=stop would end it here, device.share=true for both would share the device"
        self._console.print(Text(f"waiting for the turn of {holder} to end ({cure})", style="yellow"), soft_wrap=True)

    def waiting(self, holder: str, timeout_s: float) -> None:
        """Others hold the card; it is waited for."""
        cure = "device.when_taken=stop would end it here"
        words = f"the card is taken: {holder}. Waiting up to {_duration(timeout_s)} for it ({cure})"
        self._console.print(Text(words, style="yellow"), soft_wrap=True)

    def taken(self, holder: str) -> None:
        """Others hold the card where the full run was to be launched."""
        words = f"not launched: the card is taken: {holder}. The command above is what fits; start it when the card is free"
        self._console.print(Text(words, style="red"), soft_wrap=True)

    def otherwise(self, line: str, what: str) -> None:
        """The run has just said that it goes on otherwise than asked."""
        self._console.print(Text(f"autofit: the run {what}" + (f": {line}" if line else ""), style="yellow"), soft_wrap=True)

    def phase(self, phase: str, seconds: float, *, new: bool) -> None:
        """The trial under way is in this phase, so many seconds after its start; without a terminal only a new phase is told."""
        if self._spinner is not None:
            self._spinner.update(f"{escape(self._trial)}  [dim]{phase} {seconds:.0f} s[/]")
        elif new:
            self._console.print(Text(f"            {phase} at {seconds:.1f} s", style="dim"))

    def tried(self, trial: Trial, job: Job) -> None:
        self._stop_spinner()
        verdict = trial.verdict
        line = Text.assemble(
            f"  rung {trial.rung.index:>3}  ",
            (f"{verdict.kind.value:<14}", _COLOURS.get(verdict.kind, "magenta")),
            f" {_size(verdict.peak_bytes):>9}  {trial.seconds:5.1f} s  ",
            _room(trial, job) if verdict.fits else verdict.why,
        )
        self._console.print(line)
        for note in trial.report.notes:
            if note in self._said:
                continue
            self._said.add(note)
            self._console.print(Text(f"            {note}", style="dim"))
        if not verdict.fits and not verdict.lower_rung_may_help and verdict.kind is not Kind.CARD_TAKEN:
            self._console.print(
                Panel(Text(verdict.evidence.strip()[-4000:] or "(it said nothing)"), title="the trainer's own words", box=box.ROUNDED)
            )
            self._console.print(Text(f"all of it: {trial.folder}"))

    def summary(self, fit: Fit) -> None:
        """The ladder as far as it was walked, and what was given up."""
        job = fit.job
        table = Table(box=box.SIMPLE_HEAD, title=f"{job.recipe.name} on {job.budget}", title_justify="left")
        for heading in ("rung", *(wheel.name for wheel in job.ladder.wheels), "accum"):
            table.add_column(heading, justify="right")
        for heading in ("peak", "per sample", "full run", "trial"):
            table.add_column(heading, justify="right")
        table.add_column("verdict")
        for trial in fit.trials:
            table.add_row(*self._row(trial, job), style="bold" if trial.verdict.fits else None)
        self._console.print(table)
        if fit.chosen is None:
            self._console.print(Text(_why_none(fit), style="red"), soft_wrap=True)
            return
        given_up = job.ladder.given_up(fit.chosen.rung)
        text = ", ".join(f"{name} {_value(used)} instead of {_value(asked)}" for name, (asked, used) in given_up.items())
        batch, asked_batch = fit.chosen.effective_batch, job.ladder.effective_batch
        self._console.print(Text(_given_up(text, _batch_words(fit.chosen, asked_batch), fit.same)))
        if fit.chosen.rung.effective_batch != asked_batch:
            self._console.print(Text(_learning_rate(asked_batch, batch), style="yellow"))

    def _row(self, trial: Trial, job: Job) -> Iterable[str]:
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
        yield f"[{_COLOURS.get(verdict.kind, 'magenta')}]{verdict.kind.value}[/]" + ("" if verdict.fits else f" in {verdict.phase}")

    def launching(self, fit: Fit) -> None:
        assert fit.command is not None
        self._console.print("the same without autofit:")
        self._console.print(Text("  " + fit.command.shell(), style="cyan"), soft_wrap=True)
        self._console.print()

    def heartbeat(self, seconds: float, used_bytes: int, peak_bytes: int, job: Job) -> None:
        """How much of the budget the run uses, where its trainer can't tell (a CPU: it shows 0G)."""
        if used_bytes and job.budget.kind == "cpu":
            budget = format_size(job.budget.budget_bytes)
            words = f"autofit: {_duration(seconds)}, memory {format_size(used_bytes)} of {budget} (peak {format_size(peak_bytes)})"
            self._console.print(Text(words, style="dim"))

    def failed_attempt(self, fit: Fit, made: Made) -> None:
        """An attempt has ended before its time: what of, and by how much its fit was wrong."""
        words = f"autofit: attempt {made.number} ended after {_duration(made.seconds)}: {made.ended.value} in {made.phase}"
        self._console.print(Text(f"{words}: {made.evidence}" if made.evidence else words, style="red"), soft_wrap=True)
        wrong = made.wrong_by(fit.chosen.verdict.peak_bytes if fit.chosen is not None else 0)
        if wrong is not None:
            short = f"the fit was wrong by {format_size(wrong)}: the run needed that much more than its trial had shown"
            taken = "the run needed no more than its trial had shown: memory was taken from it"
            self._console.print(Text(f"autofit: {short if wrong > 0 else taken}", style="yellow"), soft_wrap=True)

    def recovering(self, move: Move) -> None:
        """What is done next."""
        from launcher.recover import Stop, Wait

        if isinstance(move, Stop):
            self._console.print(Text(f"autofit: nothing more is tried: {move.why}", style="red"), soft_wrap=True)
            return
        go_on = move.then if isinstance(move, Wait) else move
        start = f"from {go_on.checkpoint}" if go_on.checkpoint is not None else "from the beginning"
        workers = f", {go_on.workers} loader workers" if go_on.workers is not None else ""
        line = f"autofit: {go_on.why}. Rung {go_on.rung.index} ({_words(go_on.rung)}{workers}), {start}"
        self._console.print(Text(line, style="yellow"), soft_wrap=True)

    def ended(self, fit: Fit) -> None:
        outcome = fit.outcome
        assert outcome is not None
        if outcome.done:
            seconds = sum(made.seconds for made in fit.attempts)
            times = f" in {len(fit.attempts)} attempts" if len(fit.attempts) > 1 else ""
            took = f"[green]done[/]{times} in {_duration(seconds)}; record: {escape(str(fit.job.folder.final))}"
            self._console.print(took, highlight=False, soft_wrap=True)
            for name, value in _flat(fit.results):
                self._console.print(Text(f"  {name:<28} {value}"), soft_wrap=True)
        else:
            self._console.print(f"[red]{escape(_failure(outcome))}[/]", highlight=False, soft_wrap=True)
            self._console.print(Text(f"its words: {fit.job.folder.run_stderr} and {fit.job.folder.run_stdout}"), soft_wrap=True)
            self._going_on(fit)
        self._memory(fit)

    def _going_on(self, fit: Fit) -> None:
        """What a failed run has left, and how to go on from there."""
        from launcher.trainers.base import resuming

        if fit.attempts and fit.attempts[-1].left:
            self._console.print(Text(f"checkpoint left: {fit.attempts[-1].left[0]}"), soft_wrap=True)
            self._console.print(Text(f"to go on from it: autofit resume {fit.job.folder.path}", style="cyan"), soft_wrap=True)
            return
        if fit.chosen is None or fit.command is None:
            return
        if fit.attempts and resuming(fit.job.adapter).keeps() is not None:  # it was looked for, and what is there is none
            self._console.print("no checkpoint is left to go on from")
            return
        left = fit.job.adapter.going_on(fit.chosen.rung, fit.command, folder=fit.job.folder.path)
        if left is None:
            self._console.print("no checkpoint is left to go on from")
            return
        self._console.print(Text(f"checkpoint left: {left.checkpoint}"), soft_wrap=True)
        self._console.print(Text(f"to go on from it: {left.command.shell()}", style="cyan"), soft_wrap=True)

    def _memory(self, fit: Fit) -> None:
        """The run held against its trial, and what it lost to memory on the way."""
        memory, lost = fit.memory, fit.outcome.lost_to_memory if fit.outcome is not None else ()
        if memory is not None and memory.ratio is not None:
            run, trial, cap, budget = map(
                format_size, (memory.run_peak_bytes, memory.trial_peak_bytes, memory.cap_bytes, memory.budget_bytes)
            )
            self._console.print(Text(f"  {'memory':<28} run {run}, trial {trial} ({memory.ratio:.1%}), cap {cap}, budget {budget}"))
            if memory.above_trial:
                self._console.print(
                    Text(f"the run needed more than its trial had shown: please report this, with {fit.job.folder.path}", style="yellow"),
                    soft_wrap=True,
                )
        for line in lost:
            self._console.print(Text(f"lost to memory, and the trainer went on: {line}", style="yellow"), soft_wrap=True)

    def report(self, trial: Trial, job: Job) -> None:
        """One trial, phase by phase."""
        table = Table(box=box.SIMPLE_HEAD, title=f"rung {trial.rung.index}: {_words(trial.rung)}", title_justify="left")
        table.add_column("phase")
        for heading in ("batches", "seconds", "allocated", "reserved", "outside", "device"):
            table.add_column(heading, justify="right")
        for use in trial.report.uses:
            table.add_row(
                use.phase,
                str(use.batches),
                f"{use.seconds:.2f}",
                _size(use.allocated_bytes),
                _size(use.reserved_bytes),
                _size(use.outside_bytes),
                _size(use.device_bytes),
            )
        self._console.print(table)
        self._console.print(f"cap {format_size(job.budget.cap_bytes)}; {trial.report.optimizer_steps} optimizer steps", highlight=False)

    def ladder(self, ladder: Ladder) -> None:
        """Every rung, numbered."""
        table = Table(box=box.SIMPLE_HEAD)
        for heading in ("rung", *(wheel.name for wheel in ladder.wheels), "accum", "effective"):
            table.add_column(heading, justify="right")
        for rung in ladder.rungs:
            table.add_row(str(rung.index), *map(_value, rung.values.values()), str(rung.accumulation), str(rung.effective_batch))
        self._console.print(table)

    def faults(self, faults: Iterable[Fault]) -> None:
        """What is wrong with the input, one fault a paragraph."""
        for fault in faults:
            place = ": ".join(part for part in (fault.where, fault.key) if part)
            self._console.print(
                Text.assemble((f"{place}: " if place else "", "bold"), (fault.found, "red"), f". {fault.cure}"), soft_wrap=True
            )

    def _stop_spinner(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None


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
    if fit.status == "card_taken":
        return f"Stopped: others hold the card ({fit.trials[-1].verdict.why}). Wait until it is free, or set device.share=true."
    if fit.trials and not fit.trials[-1].verdict.lower_rung_may_help:
        return _stopped(fit)
    if fit.nearest is not None and fit.nearest_command is not None:
        return _nearest(fit.nearest, fit.nearest_command, job)
    disproved = "" if fit.standing is None or not fit.standing.against else ", full runs of this launch have ruled out some"
    tried = f"{len(fit.trials)} of {len(job.ladder.rungs)} rungs tried{disproved}, the others ask as much as one that failed"
    from launcher.fit import least_need

    if any(trial.verdict.otherwise for trial in fit.trials):
        return f"No rung fits {job.budget}: {tried}. {_memory_for(least_need(fit.trials), job)}{_not_turned(fit)}"
    cure = _memory_for(least_need(fit.trials), job) + "Lower a floor, add a wheel, or give it more memory."
    if fit.trials and all(trial.verdict.phase == Phase.FINISH for trial in fit.trials):
        cure = "All of them failed at the end of a run (final validation, figures): set trainer.args.plots=False, or give it more memory."
    return f"No rung fits {job.budget}: {tried}. {cure}"


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
        f"Turning {' and '.join(names)}, {last.verdict.why}: autofit has mistaken how that is said; the script is not at fault."
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


def _nearest(tried: Trial, command: Command, job: Job) -> str:
    """A setting that fits and that only another effective batch allows."""
    asked = job.ladder.effective_batch
    return (
        f"No rung fits {job.budget} with the effective batch of {asked}. Nearest that fits, really tried "
        f"({format_size(tried.verdict.peak_bytes)}):\n  {command.shell()}\n"
        f"autofit run {ALLOW_BATCH} -- ... (ladder.keep_batch=false in a recipe) accepts that. "
        f"{_learning_rate(asked, tried.effective_batch)}"
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
    return f"effective batch {asked}, as asked"


def _given_up(text: str, batch: str, same: SameTraining | None) -> str:
    """What the rung gives up; that it gives up nothing, or is as asked, only where that is proven."""
    if same is None or same.proven:
        return f"given up: {text or 'nothing'} ({batch})"
    short = "; ".join(dict.fromkeys(line.split(" ", 1)[1] for line in same.short))
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
    from launcher.recover import Ended

    evidence = f": {outcome.evidence}" if outcome.evidence else ""
    if outcome.ended is Ended.DIVERGED and outcome.returncode == 0:
        return f"the full run came to its end, but is not done: its last loss is not finite{evidence}"
    by_autofit = {
        Ended.DIVERGED: "diverged (its loss was not finite)", Ended.STALLED: "stood still", Ended.SPILLED: "spilled out of the card",
    }  # fmt: skip
    if outcome.ended in by_autofit:
        return f"the full run {by_autofit[outcome.ended]} and was ended{evidence}"
    if outcome.ended is Ended.DISK_FULL:
        return f"the full run failed for want of disk{evidence}"
    reason = f": {outcome.memory_failure.line}" if outcome.memory_failure else ""
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
