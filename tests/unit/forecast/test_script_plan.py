"""What two small trials say of a ladder that nobody can trace."""

from __future__ import annotations

import pytest

from launcher.config.schema import Recipe
from launcher.errors import BadInput
from launcher.forecast import gpu_catalogue, script_plan
from launcher.forecast.plan import CardPlan, Word
from launcher.ladder.rungs import Ladder, Wheel, build
from launcher.ladder.search import Tried, seen_in
from launcher.ladder.verdict import Kind, Verdict
from launcher.machine import devices
from launcher.shared.report import Phase
from launcher.shared.sizes import GIB, MIB
from tests.helpers.surfaces import Surface

RECIPE = Recipe.model_validate(
    {"name": "mine", "ask": {"micro_batch": 64}, "trainer": {"adapter": "script"}, "ladder": {"order": ("micro_batch",)}}
)
BUDGET = devices.find("cpu", memory_bytes=10 * GIB, headroom=0.1)


def ladder(*micro_batches: int, models: tuple[str, ...] = ("x",)) -> Ladder:
    wheels = [Wheel(name="micro_batch", values=micro_batches), Wheel(name="model", values=models)]
    return build(wheels, effective_batch=micro_batches[0])


def surface(of: Ladder, *, standing: float, each: float, validation: float = 0.0) -> Surface:
    """Bytes, as parts of the budget's cap; validation's batch is its own."""
    cap = BUDGET.cap_bytes
    needs = {rung.index: dict.fromkeys(Phase, (standing + each * rung.micro_batch) / cap) for rung in of.rungs}
    return Surface(of, {index: {**by_phase, Phase.VALIDATE: validation / cap} for index, by_phase in needs.items()})


def tried(of: Surface) -> list[Tried]:
    made: list[Tried] = []
    while (rung := script_plan.to_try(of.ladder, made)) is not None:
        made.append(of.tried(rung))
    return made


def planned(of: Surface, *gpus: str) -> CardPlan:
    return script_plan.planned(RECIPE, of.ladder, seen_in(tried(of)), BUDGET, gpu_catalogue.named(gpus))


def test_a_sixteenth_and_a_quarter_of_what_is_asked_are_tried() -> None:
    easy = surface(ladder(512, 256, 128, 64, 32, 16, 8, 4, 2, 1, models=("x", "s")), standing=0, each=MIB)
    made = tried(easy)
    assert [(one.rung.micro_batch, one.rung.values["model"]) for one in made] == [(32, "x"), (128, "x")]


@pytest.mark.parametrize(("values", "micro_batches"), [((4, 2, 1), [2, 4]), ((2, 1), [2]), ((1,), [1]), ((16, 8, 4, 2, 1), [2, 4])])
def test_one_sample_is_tried_only_where_nothing_else_is_there(values: tuple[int, ...], micro_batches: list[int]) -> None:
    assert [one.rung.micro_batch for one in tried(surface(ladder(*values), standing=0, each=MIB))] == micro_batches


def test_after_a_failure_smaller_ones_are_tried() -> None:
    """Up to 8 fit, and a sixteenth of 512 is 32."""
    made = tried(surface(ladder(512, 256, 128, 64, 32, 16, 8, 4, 2, 1), standing=0, each=1.1 * GIB))
    assert [(one.rung.micro_batch, one.verdict.fits) for one in made] == [(32, False), (8, True), (4, True)]


def test_nothing_is_tried_after_a_failure_that_no_lower_rung_cures() -> None:
    of = surface(ladder(64, 32, 16, 8, 4, 2), standing=0, each=MIB)
    crashed = Tried(rung=of.ladder.rungs[3], verdict=Verdict(kind=Kind.CRASHED, phase="train", why="KeyError"))
    assert script_plan.to_try(of.ladder, [crashed]) is None


def test_every_rung_is_foreseen_within_bounds_that_grow_with_the_distance() -> None:
    of = surface(ladder(64, 32, 16, 8, 4, 2), standing=GIB, each=200 * MIB)
    (here,) = planned(of).cards
    for rung in of.ladder.rungs:
        train, real = here.forecasts[rung.index][Phase.TRAIN], GIB + 200 * MIB * rung.micro_batch
        assert train.middle_bytes == pytest.approx(real, rel=1e-6) and train.low_bytes < real < train.high_bytes
    wide = [(one.high_bytes - one.low_bytes) / one.middle_bytes for one in (here.forecasts[rung][Phase.TRAIN] for rung in (0, 1, 2))]
    assert wide == sorted(wide, reverse=True) and wide[0] < 0.25
    assert [here.words[rung] for rung in (0, 1)] == [Word.TOO_LARGE, Word.TO_FIT]


def test_a_validation_whose_batch_is_its_own_is_not_taken_to_grow() -> None:
    of = surface(ladder(64, 32, 16, 8, 4, 2), standing=GIB, each=20 * MIB, validation=6 * GIB)
    (here,) = planned(of).cards
    assert here.forecasts[0][Phase.VALIDATE].middle_bytes == pytest.approx(6 * GIB, rel=1e-6) and here.words[0] is Word.TO_FIT


def test_another_model_has_no_forecast() -> None:
    plan = planned(surface(ladder(64, 32, 16, 8, models=("x", "s")), standing=GIB, each=20 * MIB))
    assert {plan.ladder.rungs[index].values["model"] for index in plan.why_not} == {"s"}
    assert all(plan.cards[0].words[index] is Word.UNKNOWN for index in plan.why_not)


def test_what_one_card_measured_is_held_against_others() -> None:
    of = surface(ladder(64, 32, 16, 8, 4, 2), standing=GIB, each=300 * MIB)  # 64: 19.75 GiB
    plan = planned(of, "t4", "a100_80gb")
    assert {one.name: one.words[0] for one in plan.cards} == {"t4": Word.TOO_LARGE, "a100_80gb": Word.TO_FIT}
    assert "extrapolated, not proven" in plan.record()["evidence"]


def test_a_card_that_is_not_known_is_refused() -> None:
    with pytest.raises(BadInput):
        planned(surface(ladder(4, 2), standing=0, each=MIB), "rtx4080")
