"""What the certificate of a rung says, line by line, of what its twins came to."""

from __future__ import annotations

from dataclasses import replace

from launcher.ladder import same_training
from launcher.ladder.same_training import PROVEN
from launcher.ladder.twins import Twin, TwinFigures, compare
from tests.helpers.updates import twin


def first(**how: object) -> Twin:
    return twin(4, 1, **how)  # type: ignore[arg-type]


def test_fewer_optimizer_steps_are_told() -> None:
    whole, quarter = twin(4, 1, steps=8), twin(1, 4, apart=1e-7, steps=2)
    certificate = same_training.certificate(compare(whole, [quarter]), whole, [quarter])
    assert certificate.gradient == PROVEN and certificate.steps == "differs by 6: 2 optimizer steps at 1 x 4, 8 at 4 x 1"


def test_a_pass_that_counts_micro_batches_takes_fewer_samples() -> None:
    whole, quarter = replace(first(), whole=64), replace(twin(1, 4, apart=1e-7), whole=16)
    certificate = same_training.certificate(compare(whole, [quarter]), whole, [quarter])
    assert certificate.samples == "differs by their number: a pass takes 16 samples at 1 x 4, 64 at 4 x 1"
    ragged = replace(twin(1, 4, apart=1e-7), whole=62)
    assert same_training.certificate(compare(whole, [ragged]), whole, [ragged]).samples == PROVEN


def test_an_end_that_was_not_reached_proves_no_number_of_steps() -> None:
    whole, quarter = replace(first(), ended="limit"), replace(twin(1, 4, apart=1e-7), ended="limit")
    certificate = same_training.certificate(compare(whole, [quarter]), whole, [quarter])
    assert certificate.gradient == PROVEN and not certificate.proven
    assert certificate.steps == "not comparable because its end was not reached in 3 optimizer steps"


def test_a_certificate_comes_back_from_its_record() -> None:
    made = same_training.certificate(compare(first(), [twin(1, 4, apart=1e-7)]), first(), [twin(1, 4, apart=1e-7)])
    assert same_training.SameTraining.from_record({**made.as_record()}) == made and TwinFigures().apart == 0


def test_a_smaller_step_at_the_end_of_a_pass_is_told_apart_from_all_the_others() -> None:
    made = same_training.certificate(compare(first(), [twin(1, 4, apart=1e-7)]), first(), [twin(1, 4, apart=1e-7)])
    halved = twin(1, 4, apart=1e-7, later=0.5)
    told = same_training.but_for_the_last_step(made, compare(first(), [halved]), first(), halved)
    assert told.gradient == PROVEN and told.samples.startswith("differs by 0.5 at the end of each pass")
    fewer = twin(1, 4, apart=1e-7, steps=2)
    told = same_training.but_for_the_last_step(made, compare(first(), [fewer]), first(), fewer)
    assert told.steps.startswith("differs by 1 at the end of each pass over the data")
    assert told.steps.endswith("2 steps at 1 x 4 in all, 3 at 4 x 1")
    alike = twin(1, 4, apart=1e-7)
    assert same_training.but_for_the_last_step(made, compare(first(), [alike]), first(), alike) == made


def test_batch_norm_is_told_with_its_figure_and_refuses_nothing() -> None:
    made = same_training.certificate(compare(first(), [twin(1, 4, apart=1e-7)]), first(), [twin(1, 4, apart=1e-7)])
    told = same_training.but_for_batch_norm(made, 0.2, [twin(4, 1), twin(2, 2)])
    assert told.gradient.startswith("differs by 0.2 in batch norm alone (4 x 1 and 2 x 2)") and not told.proven
    assert same_training.but_for_batch_norm(made, None, []).gradient.startswith("not comparable because batch norm")


def test_a_moving_average_that_moves_with_every_micro_batch_is_told() -> None:
    moved = replace(twin(1, 4, apart=1e-7), beside=0.23)
    made = same_training.certificate(compare(first(), [moved]), first(), [moved])
    assert made.gradient.startswith("differs by 0.23 in what is kept of the weights beside them") and not made.proven
    still = replace(twin(1, 4, apart=1e-7), beside=1e-3)
    assert same_training.certificate(compare(first(), [still]), first(), [still]).gradient == PROVEN


def test_twins_that_evaluate_at_other_points_are_told_where_both_came_to_their_ends() -> None:
    asked, other = replace(first(), evaluations=2), replace(twin(1, 4, apart=1e-7), evaluations=8)
    said = same_training.evaluated_otherwise(asked, other)
    assert said == "differs by its evaluations: in 3 optimizer steps it evaluated 8 times at 1 x 4, 2 at 4 x 1"
    assert same_training.evaluated_otherwise(asked, replace(other, evaluations=2)) == ""
    assert same_training.evaluated_otherwise(asked, replace(other, ended="limit")) == ""
