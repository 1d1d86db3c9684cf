"""The search may skip, never guess: what it chooses equals what trying every rung finds."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from launcher.ladder import Ladder, Wheel, build
from launcher.search import Chosen, Stop, Tried, Try, dominated_by, next_move
from launcher.verdict import Kind, Verdict


def verdict(kind: Kind, phase: str = "train", source: str | None = "allocator") -> Verdict:
    return Verdict(kind=kind, phase=phase, why="", source=source)  # type: ignore[arg-type]


OOM, FITS = verdict(Kind.OUT_OF_MEMORY), verdict(Kind.FITS, "done", None)


def small() -> Ladder:
    wheels = [
        Wheel(name="val_micro_batch", values=(8, 4), acts_in="validation"),
        Wheel(name="micro_batch", values=(8, 4, 2)),
        Wheel(name="image_size", values=(640, 320)),
    ]
    return build(wheels, effective_batch=8)


def walk(ladder: Ladder, memory_of: dict[int, float], budget: float, policy: str = "walk") -> tuple[int | None, list[int]]:
    history: list[Tried] = []
    while isinstance(move := next_move(ladder, history, policy=policy), Try):  # type: ignore[arg-type]
        fits = memory_of[move.rung.index] <= budget
        history.append(Tried(rung=move.rung, verdict=FITS if fits else OOM))
    return (move.rung.index if isinstance(move, Chosen) else None), [tried.rung.index for tried in history]


@st.composite
def monotone(draw: st.DrawFn) -> tuple[Ladder, dict[int, float], float]:
    """A ladder whose memory falls (or stays) with every turn of any wheel, as memory does."""
    sizes = [draw(st.integers(1, 4)) for _ in range(3)]
    micro = [2**k for k in range(sizes[0])][::-1]
    wheels = [
        Wheel(name="micro_batch", values=tuple(micro)),
        Wheel(name="image_size", values=tuple(range(sizes[1], 0, -1))),
        Wheel(name="model", values=tuple("abcd"[: sizes[2]])),
    ]
    ladder = build(draw(st.permutations(wheels)), effective_batch=micro[0])
    weights = [[draw(st.floats(0, 10)) for _ in wheel.values] for wheel in ladder.wheels]
    falling = [list(itertools.accumulate(reversed(column))) for column in weights]  # increasing from the last value to the asked one
    memory = {
        rung.index: sum(column[len(column) - 1 - at] for column, at in zip(falling, rung.position, strict=True)) for rung in ladder.rungs
    }
    return ladder, memory, draw(st.floats(0, 120))


@given(monotone())
def test_the_walk_chooses_what_the_exhaustive_walk_chooses(case: tuple[Ladder, dict[int, float], float]) -> None:
    ladder, memory, budget = case
    chosen, tried = walk(ladder, memory, budget)
    reference, tried_all = walk(ladder, memory, budget, "exhaustive")
    by_hand = next((index for index in sorted(memory) if memory[index] <= budget), None)
    assert chosen == reference == by_hand
    assert set(tried) <= set(tried_all)


@given(monotone())
def test_a_skipped_rung_is_dominated_by_a_real_failure(case: tuple[Ladder, dict[int, float], float]) -> None:
    ladder, memory, budget = case
    chosen, tried = walk(ladder, memory, budget)
    history = [Tried(rung=ladder.rungs[index], verdict=OOM) for index in tried if memory[index] > budget]
    above = ladder.rungs[: chosen if chosen is not None else len(ladder.rungs)]
    for rung in above:
        assert rung.index in tried or dominated_by(ladder, rung, history) is not None


def test_a_rung_that_asks_more_than_a_failed_one_is_skipped() -> None:
    wheels = [Wheel(name="micro_batch", values=(4, 2)), Wheel(name="model", values=("x", "l"))]
    ladder = build(wheels, effective_batch=4)
    history = [Tried(rung=ladder.rungs[3], verdict=OOM)]  # the least of all failed
    assert next_move(ladder, history) == Stop(why="exhausted")
    assert isinstance(next_move(ladder, history, policy="exhaustive"), Try)


def test_a_failure_in_training_is_not_cured_by_a_wheel_of_validation() -> None:
    ladder = small()
    move = next_move(ladder, [Tried(rung=ladder.rungs[0], verdict=verdict(Kind.OUT_OF_MEMORY, "train"))])
    assert isinstance(move, Try)
    assert move.rung.values == {"val_micro_batch": 8, "micro_batch": 4, "image_size": 640}


def test_a_failure_in_validation_tries_the_wheel_of_validation_first() -> None:
    ladder = small()
    move = next_move(ladder, [Tried(rung=ladder.rungs[0], verdict=verdict(Kind.OUT_OF_MEMORY, "validate"))])
    assert isinstance(move, Try)
    assert move.rung.values == {"val_micro_batch": 4, "micro_batch": 8, "image_size": 640}


def test_a_failure_after_validation_counts_on_every_wheel() -> None:
    ladder = small()
    move = next_move(ladder, [Tried(rung=ladder.rungs[0], verdict=verdict(Kind.OUT_OF_MEMORY, "train_again"))])
    assert isinstance(move, Try)
    assert move.rung.index == 1


def test_an_altered_trial_and_a_failure_of_workers_dominate_nothing() -> None:
    ladder = small()
    for one in (verdict(Kind.ALTERED), verdict(Kind.OUT_OF_MEMORY, "train", "workers")):
        move = next_move(ladder, [Tried(rung=ladder.rungs[3], verdict=one)])
        assert isinstance(move, Try)
        assert move.rung.index == 0


def test_a_crash_a_stall_and_a_vacuous_trial_stop_the_walk_at_once() -> None:
    ladder = small()
    for kind in (Kind.CRASHED, Kind.STALLED, Kind.VACUOUS):
        assert next_move(ladder, [Tried(rung=ladder.rungs[0], verdict=verdict(kind))]) == Stop(why="not_memory")


def test_a_crash_of_one_rung_alone_is_passed_over_and_the_same_crash_twice_is_the_trainers() -> None:
    ladder = small()
    crash = [Verdict(kind=Kind.CRASHED, phase="train", why=f"ValueError: Expected more than 1 value, got [{n}, 256, 1, 1]") for n in (1, 2)]
    history = [Tried(rung=ladder.rungs[0], verdict=verdict(Kind.OUT_OF_MEMORY))]
    first = next_move(ladder, history)
    assert isinstance(first, Try)
    history.append(Tried(rung=first.rung, verdict=crash[0]))
    second = next_move(ladder, history)
    assert isinstance(second, Try)
    assert second.rung.index > first.rung.index
    fits = Tried(rung=second.rung, verdict=verdict(Kind.FITS))
    assert next_move(ladder, [*history, fits]) == Chosen(rung=second.rung)
    assert next_move(ladder, [*history, Tried(rung=second.rung, verdict=crash[1])]) == Stop(why="not_memory")


def test_a_crash_where_another_rung_came_further_is_passed_over_as_often_as_it_comes() -> None:
    """Ultralytics refuses a last batch of one image at 32 px: on every rung of one image, and on no other."""
    ladder = small()
    history = [Tried(rung=ladder.rungs[0], verdict=verdict(Kind.OUT_OF_MEMORY, phase="finish"))]
    crash = Verdict(kind=Kind.CRASHED, phase="setup", why="ValueError: final batch=1 training at imgsz=32")
    for _ in range(2):
        move = next_move(ladder, history)
        assert isinstance(move, Try)
        history.append(Tried(rung=move.rung, verdict=crash))
    assert isinstance(next_move(ladder, history), Try)


def test_the_first_rung_that_fits_is_chosen_and_nothing_more_is_tried() -> None:
    ladder = small()
    history = [Tried(rung=ladder.rungs[0], verdict=OOM), Tried(rung=ladder.rungs[2], verdict=FITS)]
    assert next_move(ladder, history) == Chosen(rung=ladder.rungs[2])


def test_a_rung_on_a_taken_card_was_not_measured_and_is_tried_again() -> None:
    ladder = small()
    history = [Tried(rung=ladder.rungs[0], verdict=verdict(Kind.CARD_TAKEN, "train", None))]
    assert next_move(ladder, history) == Try(rung=ladder.rungs[0])
    assert dominated_by(ladder, ladder.rungs[0], history) is None


def test_a_trainer_that_went_down_by_itself_is_followed_to_the_batch_it_took() -> None:
    ladder = build([Wheel(name="micro_batch", values=(64, 32, 16, 8)), Wheel(name="model", values=("l", "s"))], effective_batch=64)
    altered = Verdict(kind=Kind.ALTERED, phase="train", why="", took=16)
    move = next_move(ladder, [Tried(rung=ladder.asked, verdict=altered)])
    assert isinstance(move, Try) and move.rung.values == {"micro_batch": 16, "model": "l"}
    ignores = Verdict(kind=Kind.ALTERED, phase="train", why="")
    move = next_move(ladder, [Tried(rung=ladder.asked, verdict=ignores)])
    assert isinstance(move, Try) and move.rung.micro_batch == 32


def test_a_batch_that_can_not_be_put_together_leaves_only_rungs_that_need_not() -> None:
    ladder = build([Wheel(name="micro_batch", values=(64, 32, 16)), Wheel(name="model", values=("l", "s"))], effective_batch=64)
    inexact = verdict(Kind.ALTERED, source="accumulation")
    move = next_move(ladder, [Tried(rung=ladder.asked, verdict=OOM), Tried(rung=ladder.rungs[1], verdict=inexact)])
    assert isinstance(move, Try) and move.rung.values == {"micro_batch": 64, "model": "s"}
