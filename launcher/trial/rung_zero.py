"""Finds where trials of a user's own command ran another batch than was read from its text. What ran is believed. Pure.

A ladder is built from what was read. If rung 0, the command as it stands, runs something else, then that is what was asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.ladder.rungs import ACCUMULATION, MICRO_BATCH, Ladder
from launcher.ladder.verdict import Kind
from launcher.shared.report import DIVIDED_BY, MICRO_BATCHES, OWN_ACCUMULATION, SAID_ACCUMULATION, SAMPLES, WORLD_SIZE
from launcher.trial.trial import Trial

_TELLING = (Kind.FITS, Kind.ALTERED, Kind.OUT_OF_MEMORY, Kind.SPILLED, Kind.VACUOUS)
"""Verdicts of trials that really ran the command, so that the batch they showed counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Misread:
    """What was read of a command beside what its trial ran."""

    read: Mapping[str, int]
    """Settings of rung 0 that ran otherwise: the values that were read."""
    ran: Mapping[str, int] = field(default_factory=dict)
    """Every setting that the trial of rung 0 showed."""
    samples: tuple[int, int] | None = None
    """(asked, ran) samples per optimizer step, if that is what differs at the rung that was tried."""
    sizes: tuple[Sequence[int], Sequence[int]] | None = None
    """Sizes of batches, one after the other, at (rung 0, the rung that was tried), where the script changes them and not all are turned."""
    rung_index: int = 0
    believed: bool = False
    """The ladder was rebuilt from what ran."""

    def as_record(self) -> dict[str, Any]:
        ran = {name: value for name, value in self.ran.items() if name in self.read}
        step = {"samples_per_step": {"asked": self.samples[0], "ran": self.samples[1]}} if self.samples else {}
        return {"rung_index": self.rung_index, "read": dict(self.read), "ran": ran, **step, "believed": self.believed}


def found(trials: Sequence[Trial], ladder: Ladder, *, unsaid: Collection[str]) -> Misread | None:
    """What the trials so far disprove, or None. ``unsaid``: settings that the command itself doesn't mention."""
    asked = next((trial for trial in reversed(trials) if trial.rung.index == 0), None)
    if asked is not None and (wrong := at_rung_0(asked, unsaid=unsaid)) is not None:
        return wrong
    fitting = [trial for trial in trials if trial.verdict.fits]
    return next((wrong for trial in fitting if (wrong := _other_step(trial, asked, ladder) or _unturned(trial, asked)) is not None), None)


def at_rung_0(trial: Trial, *, unsaid: Collection[str]) -> Misread | None:
    """What the trial of rung 0 disproves, or None. A trainer that lowered its batch for lack of memory disproves nothing."""
    if trial.rung.index or trial.verdict.kind not in _TELLING or trial.report.swallowed:
        return None
    expected, ran = _expected(trial), shown(trial, unsaid=unsaid)
    read = {name: expected[name] for name, value in ran.items() if name in expected and value != expected[name]}
    return Misread(read=read, ran=ran) if read else None


def _expected(trial: Trial) -> dict[str, int]:
    """What the trial would have shown if the command had been read right."""
    rung, told = trial.rung, trial.expects.get(ACCUMULATION)
    counted = {} if trial.kept and told is None else {ACCUMULATION: told if isinstance(told, int) else rung.accumulation}
    return {MICRO_BATCH: rung.micro_batch, WORLD_SIZE: rung.world_size, **counted}


def shown(trial: Trial, *, unsaid: Collection[str]) -> dict[str, int]:
    """What a trial showed of its batch: micro-batch, accumulation and processes, each where it was seen.

    What a script takes by itself beyond what it was told counts as its accumulation where no word of the command says one: it has none,
    or it is said elsewhere. Where one does, it is a factor of the script's own.
    """
    observed, facts = trial.report.observed, trial.report.facts
    counted = observed.get(ACCUMULATION)
    if isinstance(counted, int) and ACCUMULATION in unsaid:
        counted *= int(facts.get(OWN_ACCUMULATION, 1))
    said = facts.get(SAID_ACCUMULATION)
    seen = {
        MICRO_BATCH: observed.get(MICRO_BATCH),
        ACCUMULATION: counted if counted is not None else said,
        WORLD_SIZE: facts.get(WORLD_SIZE),
    }
    return {name: value for name, value in seen.items() if isinstance(value, int) and not isinstance(value, bool)}


def _other_step(trial: Trial, asked: Trial | None, ladder: Ladder) -> Misread | None:
    """A rung whose step had another number of samples than the asked one's: as that was seen, or as it was read where it wasn't."""
    if not seen_batch(trial):
        return None
    read = ladder.asked.effective_batch // int(trial.report.facts.get(DIVIDED_BY, 1))
    batch = (seen_batch(asked) if asked is not None else None) or read
    wanted = batch * trial.rung.effective_batch // ladder.asked.effective_batch
    ran = trial.effective_batch
    return Misread(read={}, samples=(wanted, ran), rung_index=trial.rung.index) if ran != wanted else None


def _unturned(trial: Trial, asked: Trial | None) -> Misread | None:
    """A rung whose batches don't follow one another as rung 0's do, each smaller by as much: a later loader's size is no turned one."""
    own = asked.report.facts.get(MICRO_BATCHES, ()) if asked is not None else ()
    ran = trial.report.facts.get(MICRO_BATCHES, ())
    if asked is None or max(len(own), len(ran)) < 2 or not trial.rung.index:
        return None
    due = [size * trial.rung.micro_batch // asked.rung.micro_batch for size in own]
    return None if list(ran) == due else Misread(read={}, sizes=(own, ran), rung_index=trial.rung.index)


def seen_batch(trial: Trial) -> int | None:
    """Samples per optimizer step as the trial saw them; None if it couldn't."""
    seen = trial.report.optimizer_steps and isinstance(trial.report.facts.get(SAMPLES), int)
    return trial.effective_batch if seen else None


# ----------------------------------------------------------------------------------------------------------------------
# In words


def words(wrong: Misread, read_at: Mapping[str, str]) -> str:
    """A sentence: what was read where, and what ran."""
    if wrong.samples is not None:
        asked, ran = wrong.samples
        return f"an optimizer step of rung {wrong.rung_index} took {ran} samples instead of {asked}"
    if wrong.sizes is not None:
        own, turned = (", then ".join(map(str, sizes)) for sizes in wrong.sizes)
        at = f"{own} samples at rung 0, {turned} at rung {wrong.rung_index}"
        return f"the script changes its batch itself: {at}: not all of them are seen to be turned"
    ran_words = " and ".join(f"{name} {wrong.ran[name]}" for name in wrong.read)
    read = " and ".join(f"{value}{f' ({said})' if (said := read_at.get(name)) else ''}" for name, value in wrong.read.items())
    return f"the command as it stands ran {ran_words}, and {read} had been read"


def cure(wrong: Misread) -> str:
    """A sentence: what to type before ``--`` so that the command is read right."""
    if wrong.samples is not None:
        return (
            "The script takes micro-batches to a step by itself, in another number than was read, so that each rung would train otherwise. "
            "Where it keeps a whole batch by itself, say trainer.args.spelled.accumulation=itself ask.accumulation=N (as many as it takes "
            "at the asked batch); where it always takes N, say ask.accumulation=N trainer.args.says.accumulation=N."
        )
    if wrong.sizes is not None:
        return "Rungs below the command as it stands would train otherwise in part. Have all sizes follow one value of the command's."
    typed = [f"ask.{name}={wrong.ran[name]} trainer.args.says.{name}={wrong.ran[name]}" for name in wrong.read if name != WORLD_SIZE]
    typed += [f"trainer.args.spelled.{name}=..." for name in wrong.read if name != WORLD_SIZE]
    typed += [f"trainer.args.processes={wrong.ran[WORLD_SIZE]}"] if WORLD_SIZE in wrong.read else []
    held = f", or ladder.wheels.micro_batch.floor={wrong.ran[MICRO_BATCH]} where nothing turns it" if MICRO_BATCH in wrong.read else ""
    return (
        "It is said elsewhere, or counts in another unit (tokens, frames, the samples of all processes). If what ran is what is meant, say "
        f"so and how it is spelled, before --: {' '.join(typed)}{held}."
    )
