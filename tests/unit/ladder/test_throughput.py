"""The fastest of the rungs that give up the same, by at most two trials more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from launcher.ladder import throughput
from launcher.ladder.rungs import Ladder, Rung, Wheel, build


def ladder(*micro: int, keep_batch: bool = True) -> Ladder:
    wheels = [Wheel(name="micro_batch", values=micro), Wheel(name="image_size", values=(640, 320))]
    return build(wheels, effective_batch=micro[0], keep_batch=keep_batch)


def timed(of: Ladder, fitting: Rung, seconds: Callable[[Rung], float]) -> tuple[Rung, dict[int, float]]:
    """The rung that is taken, and every speed that was measured for it."""
    speeds: dict[int, float] = {}

    def time(rung: Rung) -> None:
        speed = throughput.speed(rung, seconds(rung))
        assert speed is not None
        speeds[rung.index] = speed

    time(fitting)
    while (rung := throughput.worth_a_trial(of, fitting, speeds, made=len(speeds) - 1)) is not None:
        time(rung)
    return throughput.fastest(of, fitting, speeds), speeds


def micro(of: Ladder, speeds: Mapping[int, float]) -> list[int]:
    return [of.rungs[index].micro_batch for index in speeds]


def test_only_a_smaller_micro_batch_gives_up_the_same() -> None:
    of = ladder(16, 8, 4, 2, 1)
    assert [rung.micro_batch for rung in throughput.alike(of, of.rungs[1])] == [4, 2, 1]
    assert all(rung.values["image_size"] == 640 for rung in throughput.alike(of, of.rungs[1]))
    loose = ladder(16, 8, 4, keep_batch=False)
    assert not throughput.alike(loose, loose.asked), "another effective batch is another training"


def test_a_slower_half_leads_to_what_lies_between() -> None:
    of = ladder(48, 24, 16, 12, 8)
    taken, speeds = timed(of, of.rungs[1], lambda rung: {24: 30.0, 16: 16.0, 12: 18.0, 8: 20.0}[rung.micro_batch])
    assert micro(of, speeds) == [24, 12, 16] and taken.micro_batch == 16


def test_as_fast_is_not_worth_a_smaller_one() -> None:
    of = ladder(8, 4, 2)
    assert timed(of, of.asked, lambda rung: rung.micro_batch / (1.04 if rung.micro_batch == 4 else 1.0))[0] is of.asked
    assert timed(of, of.asked, lambda rung: rung.micro_batch / (1.06 if rung.micro_batch == 4 else 1.0))[0].micro_batch == 4


def test_how_many_trials_more_there_are_at_most() -> None:
    assert [throughput.most_more(of) for of in (ladder(8), ladder(8, 4), ladder(8, 4, 2), ladder(16, 8, 4, 2, 1))] == [0, 1, 2, 2]
    assert throughput.most_more(ladder(16, 8, 4, keep_batch=False)) == 0


def test_what_was_not_timed_is_left_alone() -> None:
    of = ladder(8, 4, 2)
    assert throughput.speed(of.asked, 0.0) is None
    assert throughput.worth_a_trial(of, of.asked, {}, made=0) is None
    assert throughput.fastest(of, of.asked, {}) is of.asked


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=5), st.integers(0, 3))
def test_never_more_than_two_trials_and_never_slower_than_the_largest(seconds: list[float], at: int) -> None:
    of = ladder(16, 8, 4, 2, 1)
    fitting = of.rungs[at]
    taken, speeds = timed(of, fitting, lambda rung: seconds[rung.index])
    assert len(speeds) - 1 <= throughput.most_more(of) <= throughput.MOST_MORE and len(set(speeds)) == len(speeds)
    assert taken is fitting or speeds[taken.index] >= throughput.WORTH * speeds[fitting.index]
