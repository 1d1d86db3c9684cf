"""A run's own pace: a hang at work, a cliff, a card that waits. Stand-ins for the clock and the card; nothing is run."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.adapter.progress import TRAIN, VALIDATE, Progress
from launcher.run import health
from launcher.run.health import Cliffs, Look, StepSilence

STEPS = 10


def trained(step: int, *, phase: str = TRAIN) -> Progress:
    """The state after so many steps of epochs of ten."""
    epoch, done = divmod(step - 1, STEPS)
    return Progress(phase=phase, epoch=epoch + 1, epochs=100, step=done + 1, steps=STEPS, of_epoch=True)


def walked(steps: StepSilence, count: int, *, every_s: float = 1.0) -> float:
    """So many steps, one each ``every_s``; when the last one was."""
    for step in range(1, count + 1):
        assert steps.look(Look(now=step * every_s, progress=trained(step), grew=True)) == ""
    return count * every_s


def test_a_run_that_hangs_at_work_is_known_by_its_own_longest_pause() -> None:
    steps = StepSilence(least_s=600)
    end = walked(steps, 45, every_s=20)
    assert steps.look(Look(now=end + 999, progress=trained(45))) == "", "50 times its longest pause"
    assert steps.look(Look(now=end + 1001, progress=trained(45))) == "no step and no output for 1001 s; its longest pause before was 20.0 s"


def test_words_are_a_sign_of_life_and_a_second_hang_needs_ten_times_the_patience() -> None:
    steps, again = StepSilence(least_s=600), StepSilence(least_s=600, after_a_stall=True)
    end = walked(steps, 45)
    walked(again, 45)
    assert steps.look(Look(now=end + 500, progress=trained(45), grew=True)) == ""
    assert steps.look(Look(now=end + 1000, progress=trained(45))) == "" != steps.look(Look(now=end + 1101, progress=trained(45)))
    assert again.look(Look(now=end + 5999, progress=trained(45))) == "" != again.look(Look(now=end + 6001, progress=trained(45)))


def test_what_legitimately_takes_long_is_no_hang() -> None:
    long = 10**6
    for last in (trained(40), trained(45, phase=VALIDATE), Progress(phase=TRAIN, step=100, steps=100)):
        steps = StepSilence(least_s=600)
        end = walked(steps, 39)
        steps.look(Look(now=end + 1, progress=last))
        assert steps.look(Look(now=end + long, progress=last)) == "", f"an epoch's end, a validation, the run's end: {last}"


def test_a_run_that_has_not_shown_how_long_its_pauses_are_is_never_ended() -> None:
    young, silent, bare = StepSilence(least_s=600), StepSilence(least_s=600), StepSilence(least_s=600)
    end = walked(young, 15)
    assert young.look(Look(now=end + 10**6, progress=trained(15))) == "", "two epochs"
    assert silent.look(Look(now=10**6, progress=Progress())) == "", "it tells no steps"
    for step in range(1, 1000):
        bare.look(Look(now=step, progress=Progress(step=step, loss=1.0), grew=True))
    assert bare.look(Look(now=10**6, progress=Progress(step=999))) == "", "it may validate without a word every thousand steps"


def test_a_run_of_many_steps_shows_its_pauses_by_a_validation_that_it_came_back_from() -> None:
    steps = StepSilence(least_s=600)
    for step in range(1, 31):
        steps.look(Look(now=step, progress=Progress(phase=TRAIN, step=step, steps=100), grew=True))
    assert steps.look(Look(now=3000, progress=Progress(phase=TRAIN, step=30, steps=100))) == ""
    steps.look(Look(now=3001, progress=Progress(phase=VALIDATE, step=30, steps=100), grew=True))
    steps.look(Look(now=3100, progress=Progress(phase=TRAIN, step=31, steps=100), grew=True))
    longest = 3100 - 30
    assert steps.look(Look(now=3100 + 50 * longest - 1, progress=Progress(phase=TRAIN, step=31, steps=100))) == ""
    assert steps.look(Look(now=3100 + 50 * longest + 1, progress=Progress(phase=TRAIN, step=31, steps=100)))


def looks(seconds: Iterator[float]) -> Iterator[Look]:
    """Steps of an endless epoch, each after so many seconds."""
    now = 0.0
    for step, took in enumerate(seconds, start=1):
        now += took
        yield Look(now=now, progress=Progress(phase=TRAIN, epoch=1, step=step, steps=10**6, of_epoch=True))


def found(seconds: list[float]) -> list[tuple[float, float]]:
    cliffs = Cliffs()
    return [cliff for look in looks(iter(seconds)) if (cliff := cliffs.look(look)) is not None]


def test_a_cliff_that_lasts_is_found_and_says_how_steep_it_is() -> None:
    cliffs = found([1.0] * 300 + [8.0] * 30)
    assert cliffs and cliffs[0] == (1.0, 8.0)
    assert health.steeper((0.05, 0.4)) == "a step takes 0.40 s, 8.0 times the 50 ms that it took"


def test_a_short_dip_a_slower_run_and_one_that_begins_slowly_are_no_cliffs() -> None:
    assert not found([1.0] * 300 + [8.0] * 9 + [1.0] * 300)
    assert not found([1.0] * 300 + [2.9] * 300), "another image size, longer samples"
    assert not found([20.0] * 10 + [1.0] * 300)
