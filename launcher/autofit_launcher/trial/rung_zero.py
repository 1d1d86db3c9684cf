"""Holds trials of a person's own command against what was read of it. What rung 0 ran is what was asked, whatever was read. Pure.

Where what was read is disproved, the ladder is made anew of what ran; where it isn't known how that is turned, or the script draws its
batches, the micro-batch stays as the command has it. A lower rung whose steps aren't rung 0's is ruled out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autofit_launcher.adapter.protocol import Adapter
from autofit_launcher.common import report as reports
from autofit_launcher.common.report import DRAWN_BATCH, LEFT_AFTER, MICRO_BATCHES, OWN_ACCUMULATION, PASS_SAMPLES, SAMPLES, STEP, WORLD_SIZE
from autofit_launcher.ladder.rungs import ACCUMULATION, AS_ASKED, MICRO_BATCH, Ladder
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.trial.trial import Trial

_TELLING = (Kind.FITS, Kind.OUT_OF_MEMORY, Kind.SPILLED, Kind.VACUOUS)
"""Verdicts of trials that really ran the command, so that the batch they showed counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Misread:
    """The settings that were read of a command, beside those that its trial ran."""

    read: Mapping[str, int]
    """Settings of rung 0 that ran otherwise: the values that were read."""
    ran: Mapping[str, int] = field(default_factory=dict)
    """Settings that the trial of rung 0 showed."""
    arrived: Mapping[str, Any] = field(default_factory=dict)
    """Place where a number of the command arrives -> the number that arrived."""
    believed: bool = False
    """The ladder was rebuilt from what ran."""

    def as_record(self) -> dict[str, Any]:
        ran = {name: value for name, value in self.ran.items() if name in self.read}
        return {"read": dict(self.read), "ran": ran, "believed": self.believed}

    def words(self, read_at: Mapping[str, str]) -> str:
        """A sentence: what was read where, and what ran."""
        if not self.read:
            places = f" ({', '.join(self.arrived)})" if self.arrived else ""
            shown = ", ".join(f"{name} {value}" for name, value in self.ran.items() if name != WORLD_SIZE)
            return f"seen in the trial: {shown or 'where its numbers arrive'}{places}"
        ran = " and ".join(f"{name} {self.ran[name]}" for name in self.read)
        read = " and ".join(f"{value}{f' ({said})' if (said := read_at.get(name)) else ''}" for name, value in self.read.items())
        return f"the command as it stands ran {ran}, and {read} had been read"


def misread(trial: Trial, *, unsaid: Collection[str]) -> Misread | None:
    """Returns what the trial of rung 0 disproves, or None. ``unsaid``: settings that the command itself doesn't mention."""
    told = showed([trial], unsaid=unsaid)
    return told if told is not None and told.read else None


def showed(trials: Sequence[Trial], *, unsaid: Collection[str]) -> Misread | None:
    """Returns what the trials show of rung 0, and what had been read otherwise; None where its own shows nothing. If that ended before its
    first optimizer step, a lower rung's step is told.

    A trainer that lowered its batch for lack of memory shows nothing. A batch that is drawn, or that the script changes, disproves none.
    """
    trial = next((one for one in reversed(trials) if one.rung.index == 0), None)
    if trial is None or trial.verdict.kind not in _TELLING or trial.report.swallowed:
        return None
    rung, told, facts = trial.rung, trial.expects.get(ACCUMULATION), trial.report.facts
    ran = _shown(trial, unsaid=unsaid)
    changes = len(facts.get(MICRO_BATCHES, ())) > 1
    if facts.get(DRAWN_BATCH) or (rung.micro_batch and changes):
        ran.pop(MICRO_BATCH, None)
    if changes and trial.verdict.kind is Kind.OUT_OF_MEMORY:  # a script may catch that, and take its batch in halves
        ran.pop(ACCUMULATION, None)
    counted = {} if trial.kept and told is None else {ACCUMULATION: told if isinstance(told, int) else rung.accumulation}
    expected = {MICRO_BATCH: rung.micro_batch, WORLD_SIZE: rung.world_size, **counted}
    read = {name: value for name, value in expected.items() if value and ran.get(name, value) != value}
    lower = next((one for one in trials if one.rung.index and one.verdict.fits and _seen_batch(one)), None)
    step = {STEP: _step(lower)} if lower is not None and ACCUMULATION not in ran else {}
    return Misread(read=read, ran={**ran, **step}, arrived=facts.get(reports.ARRIVED, {}))


def _step(trial: Trial) -> int:
    """Samples of an optimizer step as the trial itself made it."""
    told = trial.expects.get(ACCUMULATION)
    return int(trial.report.facts.get(SAMPLES, 0)) * (told if isinstance(told, int) else trial.rung.accumulation)


def as_believed(trials: Sequence[Trial], ladder: Ladder) -> list[Trial]:
    """Returns the trials that belong to the ladder made anew of what they showed: those of the command as it stands (its first
    rung, whatever was read), and of rungs at which it was told the same."""
    found = []
    for trial in trials:
        same = (one for one in ladder.rungs if all(one.values.get(name) == value for name, value in trial.rung.values.items()))
        rung, report, step = next(same, None) if trial.rung.index else ladder.asked, trial.report, _step(trial)
        if rung is None or (trial.told_less if not rung.index else step not in (0, rung.effective_batch)):
            continue
        facts = {name: value for name, value in report.facts.items() if name != OWN_ACCUMULATION}
        observed = {**report.observed, **({ACCUMULATION: rung.accumulation} if ACCUMULATION in report.observed else {})}
        told = {SAMPLES: step // rung.accumulation} if step else {}
        found.append(replace(trial, rung=rung, report=replace(report, facts={**facts, **told}, observed=observed), expects={}))
    return found


def _shown(trial: Trial, *, unsaid: Collection[str]) -> dict[str, int]:
    """Returns what a trial showed of its batch: micro-batch, accumulation and processes, each where it was seen.

    What a script takes by itself beyond what it was told counts as its accumulation where no word of the command says one: it has none,
    or it is said elsewhere. Where one does, it is a factor of the script's own.
    """
    observed, facts = trial.report.observed, trial.report.facts
    counted = observed.get(ACCUMULATION)
    if isinstance(counted, int) and ACCUMULATION in unsaid:
        counted *= int(facts.get(OWN_ACCUMULATION, 1))
    said = facts.get(reports.SAID_ACCUMULATION)
    seen = {
        MICRO_BATCH: observed.get(MICRO_BATCH),
        ACCUMULATION: counted if counted is not None else said,
        WORLD_SIZE: facts.get(WORLD_SIZE),
    }
    return {name: value for name, value in seen.items() if isinstance(value, int) and not isinstance(value, bool)}


def drawn(trial: Trial) -> str:
    """The sentence on batches without a fixed number of samples; empty where they have one."""
    least, most = trial.report.facts.get(DRAWN_BATCH, (0, 0))
    seen = f"its loader says no number of samples to a batch ({least} to {most} were seen), so that parts of one aren't the asked ones"
    return seen if most else ""


def anew(adapter: Adapter, wrong: Misread | None) -> tuple[Adapter, bool]:
    """The adapter by what rung 0 ran in place of what was read, and True; where that can't be, one that turns no micro-batch, and False."""
    believed = adapter.believing(wrong.ran, wrong.arrived) if wrong is not None else None
    if believed is not None and believed != adapter.recipe and not (mended := type(adapter)(believed)).check():
        return mended, True
    rules = adapter.recipe.ladder
    left = rules.model_copy(update={"order": tuple(name for name in rules.order if name != MICRO_BATCH)})
    return type(adapter)(adapter.recipe.model_copy(update={"ladder": left})), False


def held_against(trial: Trial, asked: Trial | None, ladder: Ladder) -> Trial:
    """The trial; as one that altered the training where it fits and its optimizer steps or its model aren't those of
    ``asked``, the trial of rung 0."""
    if asked is not None and asked.report.swallowed:
        asked = None  # it shows what memory has left of the asked batch
    if not trial.verdict.fits or not trial.rung.index:
        return trial
    other = _other_step(trial, asked, ladder) or _unturned(trial, asked) or _other_pass(trial, asked, ladder)
    other = other or _other_model(trial, asked, ladder)
    if not other:
        return trial
    return replace(trial, verdict=replace(trial.verdict, kind=Kind.ALTERED, source="accumulation", why=other))


def _other_step(trial: Trial, asked: Trial | None, ladder: Ladder) -> str:
    """The sentence on a step with another number of samples than the asked one's: as that was seen, or as it was read where it wasn't."""
    if not _seen_batch(trial) or not ladder.effective_batch:
        return ""
    read = ladder.effective_batch // int(trial.report.facts.get(reports.DIVIDED_BY, 1))
    batch = (_seen_batch(asked) if asked is not None else None) or read
    wanted, ran = batch * trial.rung.effective_batch // ladder.effective_batch, trial.effective_batch
    return "" if ran == wanted else f"an optimizer step took {ran} samples instead of {wanted}: the script counts micro-batches by itself"


def _unturned(trial: Trial, asked: Trial | None) -> str:
    """The sentence on batches that don't follow one another as rung 0's do, each smaller by as much: a later loader's size isn't turned."""
    own: Sequence[int] = asked.report.facts.get(MICRO_BATCHES, ()) if asked is not None else ()
    if asked is not None and asked.verdict.kind is Kind.OUT_OF_MEMORY:  # a script may catch that, and halve its batch
        own = own[: next((at for at in range(1, len(own)) if own[at] < own[at - 1]), len(own))]
    ran: Sequence[int] = trial.report.facts.get(MICRO_BATCHES, ())
    if asked is None or max(len(own), len(ran)) < 2:
        return ""
    if list(ran) == [size * trial.rung.micro_batch // asked.rung.micro_batch for size in own]:
        return ""
    at_0, here = (", then ".join(map(str, sizes)) for sizes in (own, ran))
    return f"the script changes its batch itself ({at_0} samples at rung 0, {here} here), and not all of its sizes are turned"


def _other_pass(trial: Trial, asked: Trial | None, ladder: Ladder) -> str:
    """The sentence on a pass that the script leaves after fewer samples than at rung 0, or, where that isn't known, than there are."""
    facts, batch, rung = trial.report.facts, ladder.asked.micro_batch, trial.rung
    left, own = facts.get(LEFT_AFTER), asked.report.facts.get(LEFT_AFTER) if asked is not None else None
    whole = own * batch if own else facts.get(PASS_SAMPLES) or trial.report.train_samples
    if not left or rung.accumulation <= ladder.asked.accumulation or whole - left * rung.micro_batch < batch:
        return ""
    took = f"{left * rung.micro_batch} samples of {whole}"
    return f"the script leaves each pass over its data after {left} batches, which it counts itself: {took}"


def _other_model(trial: Trial, asked: Trial | None, ladder: Ladder) -> str:
    """The sentence on other trained weights than rung 0's, where the rung turns nothing that makes another model: a script that reads a
    file beside its configuration finds another one, or none, beside a changed copy. Known once an optimizer was made."""
    if asked is None or not ladder.given_up(trial.rung).keys() <= {*AS_ASKED}:
        return ""
    own, ran = (one.report.facts.get(reports.TRAINED, 0) for one in (asked, trial))
    halves = asked.verdict.kind is Kind.OUT_OF_MEMORY and len(asked.report.facts.get(MICRO_BATCHES, ())) > 1  # and makes its model anew
    if halves or not own or not ran or own == ran or (own < ran and asked.report.optimizer_steps < 2):  # an optimizer may be made later
        return ""
    return f"the script trains another model here: {ran:,} weights, and {own:,} at rung 0"


def _seen_batch(trial: Trial) -> int | None:
    """Samples per optimizer step as the trial saw them; None if it couldn't."""
    seen = trial.report.optimizer_steps and isinstance(trial.report.facts.get(SAMPLES), int)
    return trial.effective_batch if seen else None
