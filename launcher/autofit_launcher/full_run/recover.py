"""Decides what to do after an attempt has ended. Pure: the same history always gives the same move.

A move stays at the rung or goes down the ladder, never up, and never changes the effective batch. ``engine.launch`` carries it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from autofit_launcher.adapter.commands import Checkpoint
from autofit_launcher.common.memory_failures import Source
from autofit_launcher.common.report import Phase
from autofit_launcher.config.schema import RecoverRules
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.history.records import AttemptRecord, MoveRecord
from autofit_launcher.ladder.rungs import Ladder, Rung
from autofit_launcher.ladder.search import Tried, dominated_by
from autofit_launcher.ladder.verdict import Kind, Verdict

MOST_WAITS = 5
"""A launch waits for its card this many times at most."""
CAN_NOT_RESUME = "this trainer can't resume from a checkpoint"


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """Everything that a decision depends on."""

    ladder: Ladder
    rules: RecoverRules
    attempts: tuple[AttemptRecord, ...]
    """The attempts in order. ``forgiven`` says how many of the first don't count against ``recover.restarts``."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Checkpoints that the run can be resumed from, newest first."""
    spoiled: Mapping[Path, str] = field(default_factory=dict)
    """Saved files, each with why it can't be used, if there is no usable checkpoint. Empty: nothing was saved yet."""
    keeps: frozenset[str] | None = None
    """Wheels that may change with a checkpoint still loadable; None: this trainer can't resume."""
    tried: tuple[Tried, ...] = ()
    """Trials of this launch, including those made between attempts."""
    workers: int | None = None
    """Loader workers as asked; None: not known, or they can't be changed."""
    forgiven: int = 0
    """Number of first attempts that don't count: those before the last ``autofit resume``."""
    as_accumulated: bool = False
    """True: a rung that accumulates more than asked was shown to be another training."""

    @property
    def rung(self) -> Rung:
        """The last attempt's rung."""
        return self.ladder.rungs[self.attempts[-1].rung_index]


def decide(history: History) -> MoveRecord:
    """Decides what to do after the last attempt, which did not come to its end."""
    last, counted = history.attempts[-1], history.attempts[history.forgiven :]
    failed = [attempt for attempt in counted if attempt.ended not in (Ended.CARD_TAKEN, Ended.INTERRUPTED)]
    waits = sum(attempt.ended == Ended.CARD_TAKEN for attempt in counted)
    if not counted and (last.source == "files" or last.ended not in (Ended.OUT_OF_MEMORY, Ended.HOST_MEMORY, Ended.CARD_TAKEN)):
        return _to(history, history.rung, f"{last.ended}; resumed")
    if last.ended == Ended.CARD_TAKEN:
        if waits > MOST_WAITS:
            return _stop(history, f"others came to the card {waits} times")
        again = _to(history, history.rung, "others had taken the card's memory: the same rung once it is back")
        return again if again.stops else again.model_copy(update={"move": "wait"})
    if last.ended == Ended.INTERRUPTED:
        return _to(history, history.rung, "it was interrupted")
    if len(failed) > history.rules.restarts:
        budget = f"{history.rules.restarts} restarts (recover.restarts) are used up" if history.rules.restarts else "recover.restarts=0"
        return _stop(history, f"{last.ended}, and {budget}")
    return _after_failure(history, last, failed)


def _after_failure(history: History, last: AttemptRecord, failed: Sequence[AttemptRecord]) -> MoveRecord:
    """The move for this failure, while restarts are left."""
    before = [attempt for attempt in failed[:-1] if attempt.ended == last.ended]
    match last.ended:
        case Ended.OUT_OF_MEMORY:
            return _lower(history, f"out of memory in {last.phase}: one rung lower")
        case Ended.HOST_MEMORY:
            return _lighter(history, last)
        case Ended.KILLED:
            in_vain = sum(attempt.done >= last.done for attempt in before)  # nothing was won since those: perhaps for want of host memory
            if in_vain > 1:
                return _lighter(history, last)
            return _to(history, history.rung, "it was killed: the same rung once more")
        case Ended.STALLED:
            return _stop(history, "it stalled again") if before else _to(history, history.rung, "it stalled: once more")
        case Ended.DIVERGED:
            left = "" if history.checkpoints else f", and no checkpoint from before it is left{_saved(history, ': ')}"
            return _stop(history, f"the loss is not finite{left}")
        case Ended.CARD_FAILED:
            if history.checkpoints[:1] in ((), (last.checkpoint,)):
                return _stop(history, "the card failed, and nothing was saved since; its driver's word (dmesg, Xid) tells more")
            return _to(history, history.rung, "the card failed: once more from the checkpoint that was made since")
        case Ended.UNWRITABLE:
            return _stop(history, "its files can't be written; free space there, or make it writable, then `autofit resume`")
    return _stop(history, "it crashed, and not for want of memory: starting it again would crash it again")


def _lighter(history: History, last: AttemptRecord) -> MoveRecord:
    """Needs less host memory: a quarter of the loader workers, or a lower rung if there are none."""
    asked = history.rung.values.get("workers", history.workers) if history.workers is not None else None
    now = last.workers if last.workers is not None else asked
    names = {"files": "open files", "shared_memory": "/dev/shm", "processes": "processes"}
    short = f"{names.get(str(last.source), 'host memory')} ran short"
    if last.ended == Ended.KILLED:
        short = "it was killed once more before it had saved anything new"
    elif now is None:
        short += " (fewer loader workers, num_workers, would need less)"
    if isinstance(now, int) and now:
        return _to(history, history.rung, f"{short}: {now // 4} loader workers instead of {now}", workers=now // 4)
    if last.source == "files":
        limit = "raise that limit (ulimit -n), then `autofit resume`"
        return _stop(history, f"too many open files, and no loader worker to do without; {limit}")
    return _lower(history, f"{short}: one rung lower")


def _lower(history: History, why: str) -> MoveRecord:
    """The first rung below that can load the checkpoint and hasn't failed; after a failure in validation, one that changes only validation
    first.
    """
    last = history.attempts[-1]
    below = list(_below(history))
    kept = [rung for rung in below if _loads(history, rung)]
    if last.phase in (Phase.VALIDATE, Phase.FINISH):
        kept.sort(key=lambda rung: not _in_validation_only(history, rung))  # stable: the ladder's order within each half
    if kept:
        return _to(history, kept[0], why)
    if not below:
        return _stop(history, f"{why.partition(':')[0]}, and no rung is left below")
    if not history.rules.allow_restart:
        what = "its checkpoint can't be loaded on any rung below" if history.keeps is not None else CAN_NOT_RESUME
        return _stop(history, f"{what}; recover.allow_restart=true would begin anew at rung {below[0].index}")
    return _to(history, below[0], f"{why}, from the beginning as recover.allow_restart says")


def _below(history: History) -> Iterator[Rung]:
    """Rungs below the last attempt's that no trial and no attempt has ruled out."""
    failures = (*history.tried, *_as_tried(history))
    out = {one.rung.index for one in failures if not one.verdict.fits}
    most = history.ladder.asked.accumulation if history.as_accumulated else None
    for rung in history.ladder.rungs[history.rung.index + 1 :]:
        if rung.effective_batch != history.rung.effective_batch or (most is not None and rung.accumulation > most):
            continue  # ladder.keep_batch=false lets a launch choose another batch, never a run change its own on the way
        if rung.index not in out and dominated_by(history.ladder, rung, failures) is None:
            yield rung


def _as_tried(history: History) -> Iterator[Tried]:
    """Attempts that ran out of the device's memory, in the form of failed trials."""
    for attempt in history.attempts:
        if attempt.ended == Ended.OUT_OF_MEMORY:
            phase = Phase.VALIDATE if attempt.phase in (Phase.VALIDATE, Phase.FINISH) else Phase.TRAIN
            verdict = Verdict(kind=Kind.OUT_OF_MEMORY, phase=phase, why="the full run", source=cast(Source | None, attempt.source))
            yield Tried(rung=history.ladder.rungs[attempt.rung_index], verdict=verdict)


def _turned(history: History, rung: Rung) -> set[str]:
    """Wheels that differ from the last attempt's rung."""
    return {name for name, value in rung.values.items() if history.rung.values.get(name) != value}


def _loads(history: History, rung: Rung) -> bool:
    """Tells whether a run at this rung can go on from the last attempt's checkpoints."""
    return history.keeps is not None and _turned(history, rung) <= history.keeps


def _in_validation_only(history: History, rung: Rung) -> bool:
    acts_in = {wheel.name: wheel.acts_in for wheel in history.ladder.wheels}
    return all(acts_in[name] == "validation" for name in _turned(history, rung))


def _to(history: History, rung: Rung, why: str, *, workers: int | None = None) -> MoveRecord:
    """Goes to this rung from the newest checkpoint that loads there, or anew if nothing was saved or the recipe allows it; else stops.

    ``workers``: at most so many loader workers; None: as many as before.
    """
    newest, loads = history.checkpoints[0] if history.checkpoints else None, _loads(history, rung)
    if loads and newest is None and history.spoiled and not history.rules.allow_restart:
        anew = "recover.allow_restart=true would begin anew, with what is there put aside and not removed"
        return _stop(history, f"{why}, but nothing that was saved can be gone on from: {_saved(history)}; {anew}")
    if not loads and not history.rules.allow_restart:
        return _stop(history, f"{CAN_NOT_RESUME}; recover.allow_restart=true would begin anew")
    more = any(at < before for at, before in zip(rung.position, history.rung.position, strict=True))
    return MoveRecord(
        move="go_on", why=f"{why}, from the beginning" if loads and newest is None else why, rung_index=rung.index,
        checkpoint=newest if loads else None, workers=history.attempts[-1].workers if workers is None else workers,
        **({"unproven": True} if more else {}),
    )  # fmt: skip


def _saved(history: History, before: str = "") -> str:
    """The newest saved file that can't be used, and why, as the end of a sentence; empty if there is none."""
    if not history.spoiled:
        return ""
    path, why = next(iter(history.spoiled.items()))
    others = f" (and {len(history.spoiled) - 1} older)" if len(history.spoiled) > 1 else ""
    return f"{before}{path}: {why}{others}"


def _stop(history: History, why: str) -> MoveRecord:
    return MoveRecord(move="stop", why=why, checkpoint=history.checkpoints[0] if history.checkpoints else None)
