"""The one decision after a failed run, walked over histories that hypothesis invents."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofit_launcher.adapter.commands import Checkpoint
from autofit_launcher.common.report import Phase
from autofit_launcher.config.schema import RecoverRules
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.full_run.recover import MOST_WAITS, History, decide
from autofit_launcher.history.records import AttemptRecord, MoveRecord
from autofit_launcher.ladder.rungs import Ladder, Rung, Wheel, build
from tests.helpers import surfaces

LADDER = build(
    [
        Wheel(name="micro_batch", values=(8, 4, 2, 1)),
        Wheel(name="val_micro_batch", values=(16, 8), acts_in="validation"),
        Wheel(name="image_size", values=(640, 512)),
        Wheel(name="model", values=("large", "small")),
    ],
    effective_batch=16,
)
KEEPS = frozenset({"micro_batch", "val_micro_batch", "image_size"})


def checkpoint(done: float = 3) -> Checkpoint:
    return Checkpoint(path=Path("last.pt"), done=done, unit="epochs")


def at(rung: Rung, ended: Ended, **more: Any) -> AttemptRecord:
    return AttemptRecord(rung_index=rung.index, rung=dict(rung.values), ended=ended, phase=Phase.TRAIN).model_copy(update=more)


def but(attempt: AttemptRecord, **more: Any) -> AttemptRecord:
    return attempt.model_copy(update=more)


def history(*attempts: AttemptRecord, **more: object) -> History:
    base = History(ladder=LADDER, rules=RecoverRules(), attempts=attempts, checkpoints=(checkpoint(),), keeps=KEEPS)
    return replace(base, **more)  # type: ignore[arg-type]


def stopped(move: MoveRecord) -> bool:
    return move.stops and move.rung_index is None


def went_on(move: MoveRecord, ladder: Ladder = LADDER) -> Any:
    """The move, and its rung beside it."""
    assert move.move == "go_on" and move.rung_index is not None, move
    return SimpleNamespace(**dict(move), at=ladder.rungs[move.rung_index])


def test_a_late_out_of_memory_goes_one_micro_batch_lower_from_the_last_checkpoint() -> None:
    move = went_on(decide(history(at(LADDER.asked, Ended.OUT_OF_MEMORY))))
    assert (move.at.micro_batch, move.at.effective_batch, move.checkpoint) == (4, 16, checkpoint())
    assert not move.unproven


def test_a_rung_that_turns_a_faster_wheel_back_needs_a_trial() -> None:
    move = went_on(decide(history(at(LADDER.rungs[3], Ended.OUT_OF_MEMORY))))
    assert move.at.micro_batch == 8 and move.unproven


def test_a_smaller_model_needs_consent() -> None:
    last = [rung for rung in LADDER.rungs if rung.values["model"] == "large"][-1]
    move = decide(history(at(last, Ended.OUT_OF_MEMORY)))
    assert stopped(move) and "recover.allow_restart" in move.why and move.checkpoint == checkpoint()
    agreed = went_on(decide(history(at(last, Ended.OUT_OF_MEMORY), rules=RecoverRules(allow_restart=True))))
    assert agreed.at.values["model"] == "small" and agreed.checkpoint is None


def test_a_trainer_that_cant_resume_is_begun_anew_only_with_consent() -> None:
    ended = at(LADDER.asked, Ended.OUT_OF_MEMORY)
    move = decide(history(ended, keeps=None, checkpoints=()))
    assert stopped(move) and "recover.allow_restart" in move.why
    assert went_on(decide(history(ended, keeps=None, checkpoints=(), rules=RecoverRules(allow_restart=True)))).at.index > 0


def test_memory_that_others_took_is_waited_for_and_not_punished() -> None:
    taken = at(LADDER.rungs[2], Ended.CARD_TAKEN)
    move = decide(history(taken))
    assert move.move == "wait" and move.rung_index == 2
    assert decide(history(*[taken] * MOST_WAITS)).move == "wait"
    assert stopped(decide(history(*[taken] * (MOST_WAITS + 1))))


def test_fewer_loader_workers_come_before_a_lower_rung() -> None:
    ended = at(LADDER.asked, Ended.HOST_MEMORY)
    first = went_on(decide(history(ended, workers=8)))
    assert (first.at, first.workers) == (LADDER.asked, 2)
    second = went_on(decide(history(ended, but(ended, workers=2), workers=8)))
    assert (second.at, second.workers) == (LADDER.asked, 0)
    third = went_on(decide(history(ended, but(ended, workers=2), but(ended, workers=0), workers=8)))
    assert third.at.micro_batch == 4 and third.workers == 0
    none = decide(history(but(ended, source="files"), workers=0))
    assert stopped(none) and "ulimit -n" in none.why


def test_a_killed_run_goes_on_at_its_rung_and_lighter_where_nothing_was_won_since() -> None:
    killed = at(LADDER.asked, Ended.KILLED, left=(checkpoint(3),))
    assert went_on(decide(history(killed))).at == LADDER.asked
    assert went_on(decide(history(killed, but(killed, left=(checkpoint(4),))))).at == LADDER.asked
    assert went_on(decide(history(killed, killed))).at == LADDER.asked, "memory has nothing to do with it, as far as can be seen"
    lower = went_on(decide(history(killed, killed, killed)))
    stalled = at(LADDER.asked, Ended.STALLED)
    assert went_on(decide(history(stalled))).at == LADDER.asked and stopped(decide(history(stalled, stalled)))
    assert lower.at.micro_batch == 4 and lower.why == "it was killed once more before it had saved anything new: one rung lower"


def test_a_card_that_fails_costs_what_was_not_saved_and_no_night() -> None:
    failed = at(LADDER.asked, Ended.CARD_FAILED)
    again = went_on(decide(history(failed)))
    assert (again.at, again.checkpoint) == (LADDER.asked, checkpoint())
    assert stopped(decide(history(but(failed, checkpoint=checkpoint())))), "nothing was saved since"
    assert stopped(decide(history(failed, checkpoints=())))


def test_a_loss_that_is_not_finite_ends_the_run_with_the_checkpoint_that_is_left() -> None:
    diverged = at(LADDER.asked, Ended.DIVERGED)
    assert stopped(decide(history(diverged))) and decide(history(diverged)).checkpoint == checkpoint()
    nothing = decide(history(diverged, checkpoints=(), spoiled={Path("last.pt"): "its weights are not finite"}))
    assert stopped(nothing) and nothing.why.endswith("is left: last.pt: its weights are not finite"), "no advice in vain"


def test_what_was_saved_and_cant_be_gone_on_from_is_not_taken_for_nothing_saved_yet() -> None:
    torn = {Path("run/last.pt"): "File is not a zip file", Path("run/best.pt"): "it is empty"}
    for ended, forgiven in ((Ended.KILLED, 0), (Ended.INTERRUPTED, 1), (Ended.OUT_OF_MEMORY, 0), (Ended.STALLED, 0), (Ended.CRASHED, 1)):
        before = history(at(LADDER.asked, ended), checkpoints=(), spoiled=torn, forgiven=forgiven)
        move = decide(before)
        assert stopped(move), ended
        for words in ("run/last.pt: File is not a zip file", "(and 1 older)", "recover.allow_restart=true"):
            assert words in move.why
        anew = went_on(decide(replace(before, rules=RecoverRules(allow_restart=True))))
        assert anew.checkpoint is None
        assert went_on(decide(replace(before, spoiled={}))).checkpoint is None, "nothing was saved: nothing is lost"


def test_a_person_who_resumes_gives_a_new_budget() -> None:
    ended = [at(LADDER.asked, Ended.KILLED, left=(checkpoint(number),)) for number in range(6)]
    assert stopped(decide(history(*ended)))
    went_on(decide(history(*ended, at(LADDER.asked, Ended.INTERRUPTED), forgiven=6)))


FAULT = st.tuples(
    st.sampled_from([ended for ended in Ended if ended not in (Ended.DONE, Ended.INTERRUPTED)]),
    st.sampled_from([Phase.TRAIN, Phase.VALIDATE]),
    st.booleans(),  # it had saved something new
)


@settings(max_examples=150, deadline=None)
@given(
    ladder=st.integers(0, 10**9).map(lambda seed: surfaces.ladder(random.Random(seed))),
    faults=st.lists(FAULT, min_size=8, max_size=14),
    rules=st.builds(RecoverRules, restarts=st.integers(0, 8), allow_restart=st.booleans()),
    keeps=st.sampled_from([None, KEEPS, frozenset({"micro_batch"}), frozenset[str]()]),
    workers=st.sampled_from([None, 0, 8]),
    start=st.integers(0, 200),
)
def test_any_night_ends_within_its_budget_never_climbs_and_never_changes_the_effective_batch(
    ladder: Ladder,
    faults: list[tuple[Ended, Phase, bool]],
    rules: RecoverRules,
    keeps: frozenset[str] | None,
    workers: int | None,
    start: int,
) -> None:
    rung, now, done, attempts = ladder.rungs[start % len(ladder.rungs)], None, 0, []
    for ended, phase, saved in faults:
        done += saved
        attempts.append(at(rung, ended, phase=phase, left=(checkpoint(done),), workers=now))
        left = (checkpoint(done),) if done else ()
        move = decide(History(ladder=ladder, rules=rules, attempts=tuple(attempts), checkpoints=left, keeps=keeps, workers=workers))
        if stopped(move):
            assert not done or move.checkpoint is not None, "what is left is told"
            break
        after = ladder.rungs[move.rung_index or 0]
        assert after.index >= rung.index and after.effective_batch == rung.effective_batch, "a rung is never raised"
        if move.checkpoint is None:
            assert not done or rules.allow_restart, "progress is thrown away without consent"
            done = 0
        else:
            assert {name for name in rung.values if rung.values[name] != after.values[name]} <= (keeps or set()), "it can load it"
        rung, now = after, move.workers
    failed = [attempt for attempt in attempts if attempt.ended != Ended.CARD_TAKEN]
    assert len(failed) <= rules.restarts + 1 and len(attempts) - len(failed) <= MOST_WAITS + 1


@pytest.mark.parametrize("more", [{"source": "files"}, {"ended": "disk_full"}], ids=["open files", "an earlier autofit's word"])
def test_a_person_who_has_seen_to_what_ended_it_resumes_at_the_same_rung(more: dict[str, str]) -> None:
    again = went_on(decide(history(but(at(LADDER.asked, Ended.HOST_MEMORY), **more), workers=0, forgiven=1)))
    assert (again.at, again.checkpoint) == (LADDER.asked, checkpoint())
