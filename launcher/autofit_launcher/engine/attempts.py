"""Runs the full training to its end, in as many attempts as needed. ``recovery`` decides what comes next; this does and records it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autofit_launcher.adapter.commands import Checkpoint, Command
from autofit_launcher.engine import reuse
from autofit_launcher.engine.search import card_is_back, make_trial
from autofit_launcher.engine.state import Fit, Status
from autofit_launcher.errors import Interrupted
from autofit_launcher.full_run import start, watch
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.full_run.recovery import History, decide
from autofit_launcher.history.records import AttemptRecord, MoveRecord, RunRecord
from autofit_launcher.ladder import course
from autofit_launcher.ladder.course import with_steps
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.search import Tried
from autofit_launcher.machine import devices
from autofit_launcher.machine.process import Shows
from autofit_launcher.shared import files
from autofit_launcher.shared.activity import doing
from autofit_launcher.shared.report import Phase
from autofit_launcher.shared.sizes import format_duration
from autofit_launcher.trial.trial import Trial

WORTH_A_TRIAL = 20
"""A lower rung gets a trial first if that takes less than 1/20 of the failed attempt's time."""


_Start = tuple[Command, Rung, MoveRecord]
"""The command and rung that an attempt starts with, and the move that led to them; for the first attempt an empty move."""


def see_through(result: Fit, *, show: tuple[Shows, Shows]) -> None:
    """Launches the chosen rung; after a failure launches again as ``recovery`` decides, until the run is done or nothing helps.

    If ``result`` already has attempts, the run is resumed.
    """
    assert result.chosen is not None and result.command is not None
    begin = _next(result) if result.attempts else (result.command, result.chosen.rung, MoveRecord())
    while begin is not None:
        if not _card_is_free(result, begin[1]):
            return
        outcome = _attempt(result, begin, show=show)
        if outcome.done:
            result.status = Status.DONE
            _hold_to_what_was_due(result)
            with doing("reading what the run has achieved"):
                result.results = dict(result.job.adapter.results(folder=result.job.folder.path))
            return
        begin = _next(result)
    result.status = Status.DIVERGED if result.attempts[-1].ended == Ended.DIVERGED else Status.FAILED


def _attempt(result: Fit, begin: _Start, *, show: tuple[Shows, Shows]) -> RunRecord:
    """Launches the trainer once and follows it to its end. Raises Interrupted if a signal ended it; the record has that, too."""
    assert result.chosen is not None
    command, rung, move = begin
    job, chosen, files = result.job, result.chosen, result.job.folder.attempt(len(result.attempts) + 1)
    attempt = AttemptRecord.whole(
        number=files.number, command=command.shell(), began=time.time(), checkpoint=move.checkpoint, workers=move.workers,
        phase=Phase.TRAIN, effective_batch=rung.effective_batch, **rung.told,
    )  # fmt: skip
    result.attempts.append(attempt)
    result.status, result.command = Status.RUNNING, command
    result.told().launched(attempt.command)
    child = start.start(job, command, files, show=show)
    try:
        run = replace(job, say=result.deviated)
        outcome = watch.follow(run, child, result.attempts, base_bytes=chosen.report.base_bytes, due=result.due)
    except (Interrupted, KeyboardInterrupt):
        result.note(ended=Ended.INTERRUPTED, seconds=time.time() - attempt.began)
        raise
    result.outcome = outcome
    failure = outcome.memory_failure or {}
    same = {name: getattr(outcome, name) for name in ("ended", "phase", "evidence", "peak_bytes", "seconds")}
    ended = result.note(**same, source=failure.get("source"), asked_bytes=failure.get("asked_bytes"))
    if not outcome.done:
        by = f": {ended.evidence}" if ended.evidence else ""
        lasted = f"attempt {ended.number} ended after {format_duration(ended.seconds)}"
        result.told().say(f"autofit: {lasted}: {ended.ended} in {ended.phase}{by}", "red")
    _strike_out(result)
    return outcome


def _hold_to_what_was_due(result: Fit) -> None:
    """Compares the optimizer steps of a finished run below the asked rung with those of the asked training. One that was resumed from a
    checkpoint isn't compared: it made some steps before."""
    outcome, rung, due = result.outcome, result.rung, result.due if result.rung is not None and result.rung.index else None
    if outcome is None or outcome.optimizer_steps is None or due is None or rung is None or result.attempts[-1].checkpoint is not None:
        return
    same, times = result.certificate(rung), rung.accumulation / result.job.ladder.asked.accumulation
    result.steps = course.judged(outcome.optimizer_steps, due, times=times, same=same, stopped=outcome.stopped_early)
    result.sames[rung.index] = with_steps(same, result.steps)
    if result.same is not None and result.chosen is not None and rung.index == result.chosen.rung.index:
        result.same = result.sames[rung.index]
    if result.steps.otherwise:
        result.status = Status.OTHER_TRAINING


DISPROVES = (Ended.OUT_OF_MEMORY, Ended.HOST_MEMORY)
"""Ends that show that the fit was wrong."""


def _strike_out(result: Fit) -> None:
    """Strikes the kept fit out if the run ran out of memory at that rung, or lost something to memory. It is never used again."""
    last, outcome = result.attempts[-1], result.outcome
    assert result.chosen is not None and outcome is not None
    lost = outcome.lost_to_memory
    for_good = last.ended in DISPROVES or bool(lost)
    if last.rung_index != result.chosen.rung.index or not (for_good or last.ended == Ended.KILLED):
        return
    why = lost[0] if last.ended not in DISPROVES and lost else last.evidence or str(last.ended)
    if wrong := reuse.strike_out(result.job, result.kept.digest, rung_index=last.rung_index, why=why[:200], for_good=for_good):
        result.deviated(f"could not write down that its fit was wrong: {wrong}")
    elif result.kept.digest is not None and not for_good:
        result.deviated("was killed for an unknown reason: its kept fit is not used again before new trials")


def _next(result: Fit) -> _Start | None:
    """Returns what to launch after the last attempt has ended; None if nothing more can be done."""
    move = _move(result)
    while move.move == "go_on" and _needs_a_trial(result, move):
        tried = make_trial(result, result.job.ladder.rungs[move.rung_index or 0])
        if not tried.verdict.lower_rung_may_help:  # another kind of failed trial doesn't end a run that has begun
            break
        move = _move(result)
    rung = result.job.ladder.rungs[move.rung_index] if move.rung_index is not None else None
    if rung is None:
        result.told().say(f"autofit: nothing more is tried: {move.why}", "red")
        return None
    origin = f"from {move.checkpoint}" if move.checkpoint is not None else "from the beginning"
    workers = f", {move.workers} loader workers" if move.workers is not None else ""
    result.told().say(f"autofit: {move.why}. Rung {rung.index} ({rung}{workers}), {origin}")
    place = result.job.adapter.saved(result.job.folder.path).place
    if move.checkpoint is None and place.exists():  # it starts from the beginning, and removes nothing
        place.rename(place.with_name(f"{place.name}.attempt-{len(result.attempts)}"))
    return start.command_of_attempt(result.job, move, rung, attempt=len(result.attempts) + 1), rung, move


def _move(result: Fit) -> MoveRecord:
    """Decides what comes next, and writes it down. If the card is to be waited for, that is done before the launch."""
    job, asked, (left, spoiled) = result.job, result.job.adapter.asked, _left(result)
    result.note(left=list(left))
    tried = tuple(Tried(rung=one.rung, verdict=one.verdict) for one in result.trials)
    history = History(
        ladder=job.ladder, rules=job.recipe.recover, attempts=tuple(result.attempts), checkpoints=tuple(left), spoiled=spoiled,
        keeps=asked.keeps, tried=tried, workers=asked.workers, forgiven=result.forgiven,
    )  # fmt: skip
    move = decide(history)
    resumed = len(result.attempts) == result.forgiven  # a person has said so, and was told of it
    if not move.stops and not resumed and (newer := job.adapter.edited(since=job.folder.launched())):
        why = f"edited since the launch: {', '.join(newer)}; autofit resume goes on with that, at the launch's rung"
        move = MoveRecord(move="stop", why=why, checkpoint=move.checkpoint)
    result.note(next=move)
    result.write()
    return move


def _left(result: Fit) -> tuple[Sequence[Checkpoint], Mapping[Path, str]]:
    """Returns (checkpoints that the run can be resumed from; if there are none, the files it saved, each with why it can't be used).

    Checkpoints that lay there before the run began, or before it was begun anew, are not its own.
    """
    began = next((one.began for one in reversed(result.attempts) if one.checkpoint is None), 0.0)
    with doing("looking which checkpoints are whole"):
        saved = result.job.adapter.saved(result.job.folder.path)
        looked = {path: one for path, one in saved.look(saved.files).items() if files.written_at(path) >= began - 1.0}
    whole = [Checkpoint.whole(**dict(one)) for one in looked.values() if isinstance(one, Checkpoint)]
    return whole, {} if whole else {path: one for path, one in looked.items() if not isinstance(one, Checkpoint)}


def _needs_a_trial(result: Fit, move: MoveRecord) -> bool:
    """Tells whether the rung gets a trial before it is launched: it may need more than the failed one, or its trial is cheap."""
    assert result.chosen is not None
    last = result.attempts[-1]
    if move.rung_index == last.rung_index or any(one.rung.index == move.rung_index for one in _as_it_is_launched(result)):
        return False
    return move.unproven or result.chosen.seconds * WORTH_A_TRIAL < last.seconds


def _as_it_is_launched(result: Fit) -> Sequence[Trial]:
    """The trials that tell of what is launched: those before a cure was known didn't have it, and can have needed less."""
    if result.same is None or not result.same.cure:
        return result.trials
    cured_since = next((at for at, one in enumerate(result.trials) if one is result.chosen), 0)
    return result.trials[cured_since:]


# ----------------------------------------------------------------------------------------------------------------------
# The card


def _card_is_free(result: Fit, rung: Rung) -> bool:
    """Returns True if the card is free, after waiting if the recipe says so. Else sets the status and returns False."""
    holder = devices.taken(result.job.budget)
    if not holder or card_is_back(result, holder):
        return True
    result.status = Status.CARD_TAKEN
    no = f"not launched: the card is taken: {holder}. The command above is what fits; start it when the card is free"
    result.told().say(no, "red")
    return False
