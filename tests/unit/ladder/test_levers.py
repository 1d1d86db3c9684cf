"""Levers that a rung turns: which are held against the asked ones, and what is said of them."""

from __future__ import annotations

import pytest

from launcher.config.schema import Value, WheelRule
from launcher.ladder import course, levers, same_training
from launcher.ladder.course import Course
from launcher.ladder.rungs import Ladder, Wheel, build
from launcher.ladder.same_training import GIVEN_UP, PROVEN, SameTraining
from launcher.ladder.twins import Step, Twin, TwinFigures


def ladder(**wheels: tuple[Value, ...]) -> Ladder:
    micro = Wheel(name="micro_batch", values=(1,))
    return build([micro, *(Wheel(name=name, values=values) for name, values in wheels.items())], effective_batch=1)


def twins(gradient: TwinFigures | None, update: TwinFigures | None) -> tuple[Twin, Twin]:
    step = Step(optimizer=0, rows=1, backwards=1, settings=())
    other = Step(optimizer=0, rows=1, backwards=1, settings=(), against=gradient, update=update)
    return Twin(micro_batch=1, accumulation=1, steps=(step,)), Twin(micro_batch=1, accumulation=1, steps=(other,))


def test_levers_are_known_by_the_wheel_s_name_or_by_the_argument_that_it_turns() -> None:
    one = ladder(optimizer=("adamw", "adafactor"), image_size=(640, 512), mine=(False, True), states=("32", "8"))
    rules = {"mine": WheelRule(argument="--use_8bit_adam"), "states": WheelRule(argument="--states")}
    assert levers.turned(one, one.rungs[-1], rules) == {"optimizer": "adamw", "mine": False}
    assert levers.turned(one, one.rungs[0], rules) == {}


@pytest.mark.parametrize(("name", "argument"), [("lora", None), ("bits", "--load_in_4bit"), ("qlora", "--qlora")])
def test_adapters_and_weights_of_few_bits_are_another_training_and_nothing_is_measured_of_them(name: str, argument: str | None) -> None:
    one = ladder(optimizer=("adamw", "adafactor"), **{name: (0, 16)})
    rules = {name: WheelRule(argument=argument)}
    assert levers.turned(one, one.rungs[-1], rules) == {}
    assert course.given_up(one, one.rungs[-1], rules).endswith(f"{name} 16 instead of 0 (another training, not the same one cheaper)")


def test_what_is_given_up_says_of_each_wheel_that_it_costs_time_or_makes_another_training() -> None:
    one = ladder(offload=("none", "optimizer"), adapters=(False, True), optimizer=("adamw", "adafactor"))
    rules = {"adapters": WheelRule(argument="--lora")}
    assert levers.given_up(one, one.rungs[-1], rules) == {
        "offload": {"asked": "none", "used": "optimizer"},
        "adapters": {"asked": False, "used": True, "another_training": True},
        "optimizer": {"asked": "adamw", "used": "adafactor"},
    }
    assert [levers.beside(wheel.name, rules) for wheel in one.wheels] == ["", " (costs time)", levers.ANOTHER, ""]


def test_how_far_an_update_is_from_the_asked_one_is_told_with_the_gradients_it_is_made_of() -> None:
    far = levers.measured(*twins(TwinFigures(apart=0.0), TwinFigures(apart=0.8, factor=0.5, length=2.0, length_first=3.0)))
    assert far == {"apart": 0.8, "cosine": pytest.approx(0.75), "length": pytest.approx(2 / 3), "gradient_apart": 0.0}
    assert levers.told(far) == "its update is 0.8 apart from the asked one (cosine 0.750), of the same gradients"
    near = levers.measured(*twins(TwinFigures(apart=0.01), TwinFigures(apart=1e-6, factor=1.0, length=3.0, length_first=3.0)))
    assert levers.told(near) == "its update is the asked one, of gradients 0.01 apart"
    assert levers.told({**far, "gradient_apart": 6.1e-6}).endswith(", of gradients 6.1e-06 apart"), "layers that hardly had any are frozen"
    same = same_training.with_update(SameTraining(), far, exact=False, seconds=1.0)
    held = course.held_against(same, Course(), Course(), batch=1, less="optimizer adafactor instead of adamw")
    assert held.gradient == f"{GIVEN_UP}: optimizer adafactor instead of adamw; {levers.told(far)}"
    assert SameTraining.from_record(held.as_record()) == held


def test_what_was_not_measured_is_said_with_why() -> None:
    unseen = Twin(micro_batch=1, accumulation=1, why="it failed: out of memory")
    said = levers.measured(unseen, twins(None, None)[1])
    assert (
        levers.told(said)
        == "how far its update is from the asked one was not measured: a step as asked was not seen: it failed: out of memory"
    )
    still = TwinFigures(length=0.0, length_first=0.0)
    assert levers.measured(*twins(still, still)) == {"why": "a step changes nothing"}
    assert levers.told({}) == ""


@pytest.mark.parametrize("wheel", [{"loss_chunks": (1, 8)}, {"offload": ("none", "optimizer")}])
def test_a_loss_in_parts_or_states_elsewhere_are_the_same_training_only_where_their_gradients_are(
    wheel: dict[str, tuple[Value, ...]],
) -> None:
    one = ladder(**wheel)
    assert course.given_up(one, one.rungs[1]) == "", "it gives up speed alone"
    for update, said, verdict in (
        ({"gradient_apart": 1e-7, "apart": 1e-6}, PROVEN, "same"),
        ({"gradient_apart": 0.02, "apart": 0.02}, "differs by 0.02", "different"),
        ({"gradient_apart": 0.0, "apart": 0.01}, "differs by 0.01 in the optimizer's step", "different"),
        ({"why": "no time"}, "not comparable because no time", "not_comparable"),
    ):
        held = same_training.with_update(SameTraining(), update, exact=True, seconds=0.0)
        assert (held.gradient, held.verdict) == (said, verdict)
