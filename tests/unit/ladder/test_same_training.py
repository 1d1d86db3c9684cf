"""The decision tree of twins: the figures that a prototype measured of some thirty trainings (decision 020), and the verdict on each."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.ladder import same_training
from launcher.ladder.same_training import PROVEN, Figures, Kind, Step, Twin
from tests.helpers.updates import twin, write


def first(**how: object) -> Twin:
    return twin(4, 1, **how)  # type: ignore[arg-type]


def judged(*others: tuple[int, float, float, float], **how: object) -> same_training.Finding:
    """The finding on twins at so much accumulation, with (apart, factor, rest) of their first step."""
    made = [twin(4 // k, k, apart=apart, factor=factor, rest=rest, **how) for k, apart, factor, rest in others]  # type: ignore[arg-type]
    return same_training.compare(first(), made)


@pytest.mark.parametrize(
    ("k2", "k4", "kind"),
    [
        ((2e-7, 1.0, 2e-7), (2e-7, 1.0, 2e-7), Kind.SAME),  # a mean, divided by k
        ((0.5, 0.5, 2e-7), (0.75, 0.25, 2e-7), Kind.SCALE),  # a sum, divided by k
        ((1.0, 2.0, 2e-7), (3.0, 4.0, 2e-7), Kind.SCALE),  # a mean, not divided
        ((1.0, 2.0, 1e-7), (3.2, 4.05, 0.20), Kind.DIFFERENT),  # BERT: at k = 2 its weights are equal by luck
        ((0.25, 1.006, 0.245), (0.52, 0.79, 0.52), Kind.DIFFERENT),  # class weights
        ((0.45, 0.9, 0.4), (1.0, 0.0, 0.0), Kind.DIFFERENT),  # contrastive: a micro-batch of one has no gradient
        ((7.4e-2, 1.0, 7.4e-2), (9e-2, 1.0, 9e-2), Kind.DIFFERENT),  # a batch's standard deviation
    ],
)
def test_the_kinds_of_the_table(k2: tuple[float, float, float], k4: tuple[float, float, float], kind: Kind) -> None:
    assert judged((2, *k2), (4, *k4)).kind is kind


def test_a_factor_has_its_direction() -> None:
    assert judged((2, 1.0, 2.0, 1e-7), (4, 3.0, 4.0, 1e-7)).power == 1
    assert judged((2, 0.5, 0.5, 1e-7), (4, 0.75, 0.25, 1e-7)).power == -1


@pytest.mark.parametrize(("rest", "length", "kind"), [(1e-7, 4.0, Kind.WEIGHTED), (0.4, 1.0, Kind.ROWS_SEE), (0.0, 0.0, Kind.ROWS_SEE)])
def test_one_row_repeated_tells_weights_from_rows_that_see_each_other(rest: float, length: float, kind: Kind) -> None:
    different = judged((4, 0.5, 0.8, 0.5))
    repeated = twin(1, 4, apart=1.0, factor=4.0, rest=rest, length=length)
    assert same_training.with_one_row(different, first(), repeated).kind is kind


def test_a_learning_rate_that_hangs_on_the_batch_is_named_with_both_numbers() -> None:
    found = same_training.compare(first(), [twin(1, 4, apart=1e-7, rates=(0.025, 0.025, 0.025))])
    assert found.kind is Kind.SETTINGS and "0.025 at 1 x 4, 0.1 at 4 x 1" in found.why
    schedule = same_training.certificate(found, first(), [twin(1, 4, apart=1e-7, rates=(0.025, 0.025, 0.025))]).schedule
    assert schedule.startswith("differs by the learning rate")


def test_gradients_that_are_not_finite_are_neither_same_nor_different() -> None:
    found = judged((4, math.nan, math.nan, math.nan), length=math.nan)
    assert found.kind is Kind.UNCOMPARABLE and "not finite" in found.why


def test_batches_that_come_several_times_are_neither_same_nor_different() -> None:
    asked, other = first(), twin(1, 4, apart=0.4, rest=0.4)
    other = replace(other, rows=tuple(row for at in range(0, 12, 4) for row in asked.rows[at : at + 4] * 4), whole=512)
    found = same_training.compare(replace(asked, whole=128), [other])
    assert found.kind is Kind.UNCOMPARABLE and "each of its batches 4 times at 1 x 4" in found.why


def test_rows_that_are_mixed_in_a_drawn_order_are_neither_same_nor_different() -> None:
    mixed = replace(first(), mixed=True)
    found = same_training.compare(mixed, [twin(1, 4, apart=0.4, rest=0.4)])
    assert found.kind is Kind.UNCOMPARABLE and "mixup" in found.why
    assert same_training.compare(mixed, [twin(1, 4, apart=1e-7)]).kind is Kind.SAME, "an order that changes nothing"


def test_what_is_drawn_otherwise_is_neither_same_nor_different() -> None:
    other = replace(twin(1, 4, apart=1e-7), rows=("z",) * 12)
    found = same_training.compare(first(), [other])
    assert found.kind is Kind.UNCOMPARABLE and found.rows_differ
    certificate = same_training.certificate(found, first(), [other])
    assert not certificate.proven and all(line.startswith("not comparable because other rows") for line in certificate.lines.values())


def test_rows_in_another_order_within_a_step_are_the_same_rows() -> None:
    plain = twin(1, 4, apart=1e-7)
    turned = replace(plain, rows=(*reversed(plain.rows[:4]), *plain.rows[4:]))
    assert same_training.compare(first(), [turned]).kind is Kind.SAME
    moved = replace(plain, rows=(plain.rows[4], *plain.rows[1:4], plain.rows[0], *plain.rows[5:]))
    assert same_training.compare(first(), [moved]).kind is Kind.UNCOMPARABLE


def test_a_script_that_ignores_its_accumulation_takes_other_samples() -> None:
    ignoring = twin(1, 4, apart=0.5, rest=0.5, rows_each=1)
    found = same_training.compare(first(), [ignoring])
    assert found.kind is Kind.SAMPLES and "made of 1 samples at 1 x 4, not of 4" in found.why


def test_gradients_that_are_never_cleared_show_in_the_second_step() -> None:
    assert same_training.compare(first(), [twin(1, 4, apart=1e-7, later=0.9)]).kind is Kind.DIFFERENT
    assert same_training.compare(first(), [twin(1, 4, apart=1e-7, later=2e-3)]).kind is Kind.SAME


@pytest.mark.parametrize(
    ("epsilon", "apart", "kind"),
    [
        (2**-7, 4e-3, Kind.SAME),  # bfloat16
        (2**-7, 3e-2, Kind.DIFFERENT),
        (2**-10, 1e-3, Kind.SAME),  # float16
        (2**-10, 4e-3, Kind.DIFFERENT),
        (2**-23, 1e-3, Kind.DIFFERENT),
    ],
)
def test_weights_that_are_rounded_more_are_held_to_less(epsilon: float, apart: float, kind: Kind) -> None:
    found = same_training.compare(first(epsilon=epsilon), [twin(1, 4, apart=apart, rest=apart, epsilon=epsilon)])
    assert found.kind is kind


def test_a_factor_is_known_in_spite_of_rounding() -> None:
    made = [twin(4 // k, k, apart=k - 1.0, factor=k * 1.002, rest=3e-3, epsilon=2**-7) for k in (2, 4)]
    found = same_training.compare(first(epsilon=2**-7), made)
    assert found.kind is Kind.SCALE and found.power == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (Twin(micro_batch=1, accumulation=4, why="no optimizer of torch's made a step"), "no optimizer of torch's made a step"),
        (replace(twin(1, 4, apart=1e-7), rows=()), "its rows can't be seen"),
        (twin(1, 4, apart=1e-7, weights="other"), "its weights begin differently"),
        (twin(1, 4, apart=1e-7, mismatch="2 parameters instead of 3"), "2 parameters instead of 3"),
    ],
)
def test_what_cant_be_compared_is_said_with_its_reason(changed: Twin, said: str) -> None:
    found = same_training.compare(first(), [changed])
    assert found.kind is Kind.UNCOMPARABLE and said in found.why


def test_fewer_optimizer_steps_are_told() -> None:
    whole, quarter = twin(4, 1, steps=8), twin(1, 4, apart=1e-7, steps=2)
    certificate = same_training.certificate(same_training.compare(whole, [quarter]), whole, [quarter])
    assert certificate.gradient == PROVEN and certificate.steps == "differs by 6: 2 optimizer steps at 1 x 4, 8 at 4 x 1"


def test_a_pass_that_counts_micro_batches_takes_fewer_samples() -> None:
    whole, quarter = replace(first(), whole=64), replace(twin(1, 4, apart=1e-7), whole=16)
    certificate = same_training.certificate(same_training.compare(whole, [quarter]), whole, [quarter])
    assert certificate.samples == "differs by their number: a pass takes 16 samples at 1 x 4, 64 at 4 x 1"
    ragged = replace(twin(1, 4, apart=1e-7), whole=62)
    assert same_training.certificate(same_training.compare(whole, [ragged]), whole, [ragged]).samples == PROVEN


def test_an_end_that_was_not_reached_proves_no_number_of_steps() -> None:
    whole, quarter = replace(first(), ended="limit"), replace(twin(1, 4, apart=1e-7), ended="limit")
    certificate = same_training.certificate(same_training.compare(whole, [quarter]), whole, [quarter])
    assert certificate.gradient == PROVEN and not certificate.proven
    assert certificate.steps == "not comparable because its end was not reached in 3 optimizer steps"


def test_what_a_twin_wrote_is_read_back(tmp_path: Path) -> None:
    write(tmp_path, 7, steps=[{"optimizer": 0, "rows": 4, "backwards": 1, "settings": [{"lr": 0.1}], "kind": "SGD", "weights": "w"}])
    found = same_training.read(tmp_path, micro_batch=4, accumulation=1)
    assert found.steps == (Step(optimizer=0, rows=4, backwards=1, settings=({"lr": 0.1},), weights="w"),) and found.ended == "exit"
    assert found.rows == ("a", "b") and found.whole == 64
    write(tmp_path, 8, steps=[{"optimizer": 0, "rows": 4, "backwards": 1, "settings": [], "against": {"apart": 0.5}}])
    assert same_training.read(tmp_path, micro_batch=4, accumulation=1).why == "2 processes train together"
    assert same_training.read(tmp_path / "none", micro_batch=4, accumulation=1).why == "no optimizer of torch's made a step"
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "log").write_text("Traceback\nModuleNotFoundError: No module named 'soundfile'\n\n", encoding="utf-8")
    assert "No module named 'soundfile'" in same_training.read(tmp_path / "early", micro_batch=4, accumulation=1).why


def test_a_certificate_comes_back_from_its_record() -> None:
    made = same_training.certificate(judged((4, 1e-7, 1.0, 1e-7)), first(), [twin(1, 4, apart=1e-7)])
    assert same_training.SameTraining.of({**made.as_record()}) == made and Figures().apart == 0


def test_a_smaller_step_at_the_end_of_a_pass_is_told_apart_from_all_the_others() -> None:
    made = same_training.certificate(judged((4, 1e-7, 1.0, 1e-7)), first(), [twin(1, 4, apart=1e-7)])
    halved = twin(1, 4, apart=1e-7, later=0.5)
    told = same_training.but_for_the_last_step(made, same_training.compare(first(), [halved]), first(), halved)
    assert told.gradient == PROVEN and told.samples.startswith("differs by 0.5 at the end of each pass")
    fewer = twin(1, 4, apart=1e-7, steps=2)
    told = same_training.but_for_the_last_step(made, same_training.compare(first(), [fewer]), first(), fewer)
    assert told.steps.startswith("differs by 1 at the end of each pass over the data")
    assert told.steps.endswith("2 steps at 1 x 4 in all, 3 at 4 x 1")
    alike = twin(1, 4, apart=1e-7)
    assert same_training.but_for_the_last_step(made, same_training.compare(first(), [alike]), first(), alike) == made


def test_batch_norm_is_told_with_its_figure_and_refuses_nothing() -> None:
    made = same_training.certificate(judged((4, 1e-7, 1.0, 1e-7)), first(), [twin(1, 4, apart=1e-7)])
    told = same_training.but_for_batch_norm(made, 0.2, [twin(4, 1), twin(2, 2)])
    assert told.gradient.startswith("differs by 0.2 in batch norm alone (4 x 1 and 2 x 2)") and not told.proven
    assert same_training.but_for_batch_norm(made, None, []).gradient.startswith("not comparable because batch norm")


def test_a_step_that_ends_a_pass_early_is_held_against_the_first_twins_own() -> None:
    ragged = replace(first(), steps=tuple(replace(one, rows=rows) for one, rows in zip(first().steps, (4, 8, 10), strict=True)))
    other = twin(1, 4, apart=1e-7)
    other = replace(other, steps=tuple(replace(one, rows=rows) for one, rows in zip(other.steps, (4, 8, 10), strict=True)))
    assert same_training.compare(ragged, [other]).kind is Kind.SAME


def test_a_moving_average_that_moves_with_every_micro_batch_is_told() -> None:
    moved = replace(twin(1, 4, apart=1e-7), beside=0.23)
    made = same_training.certificate(same_training.compare(first(), [moved]), first(), [moved])
    assert made.gradient.startswith("differs by 0.23 in what is kept of the weights beside them") and not made.proven
    still = replace(twin(1, 4, apart=1e-7), beside=1e-3)
    assert same_training.certificate(same_training.compare(first(), [still]), first(), [still]).gradient == PROVEN


def test_twins_that_evaluate_at_other_points_are_told_where_both_came_to_their_ends() -> None:
    asked, other = replace(first(), evaluations=2), replace(twin(1, 4, apart=1e-7), evaluations=8)
    said = same_training.evaluated_otherwise(asked, other)
    assert said == "differs by its evaluations: in 3 optimizer steps it evaluated 8 times at 1 x 4, 2 at 4 x 1"
    assert same_training.evaluated_otherwise(asked, replace(other, evaluations=2)) == ""
    assert same_training.evaluated_otherwise(asked, replace(other, ended="limit")) == ""
