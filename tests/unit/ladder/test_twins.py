"""The decision tree of twins (figures that a prototype measured of some thirty trainings: decision 007), and the certificate of each."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from autofit_launcher.ladder.same_training import BATCH_NORM, PROVEN, SameTraining, certificate
from autofit_launcher.ladder.twins import Finding, FindingKind, Twin, compare, with_one_row
from tests.helpers.updates import twin

DIFFERENT, SAME, UNCOMPARABLE = FindingKind.DIFFERENT, FindingKind.SAME, FindingKind.UNCOMPARABLE


def first(**how: object) -> Twin:
    return twin(4, 1, **how)  # type: ignore[arg-type]


def other(apart: float = 1e-7, **how: object) -> Twin:
    return twin(1, 4, apart=apart, **how)  # type: ignore[arg-type]


def judged(apart: float, factor: float, rest: float, **how: object) -> Finding:
    return compare(first(), other(apart, factor=factor, rest=rest, **how))


def certified(one: Twin, two: Twin) -> SameTraining:
    return certificate(compare(one, two), one, two)


@pytest.mark.parametrize(
    ("figures", "kind", "power"),
    [
        ((2e-7, 1.0, 2e-7), SAME, 0),  # a mean, divided by k
        ((0.75, 0.25, 2e-7), FindingKind.FACTOR, -1),  # a sum, divided by k
        ((3.0, 4.0, 2e-7), FindingKind.FACTOR, 1),  # a mean, not divided
        ((3.2, 4.05, 0.20), DIFFERENT, 0),  # BERT: not divided, and weighted
        ((0.52, 0.79, 0.52), DIFFERENT, 0),  # class weights
        ((1.0, 0.0, 0.0), DIFFERENT, 0),  # contrastive: a micro-batch of one has no gradient
        ((7.4e-2, 1.0, 7.4e-2), DIFFERENT, 0),  # a batch's standard deviation
    ],
)
def test_the_kinds_of_the_table(figures: tuple[float, float, float], kind: FindingKind, power: int) -> None:
    found = judged(*figures)
    assert found.kind is kind and found.power == power and found.of == "gradient"


@pytest.mark.parametrize(("apart", "at", "kind"), [
    (1.15e-4, 0, SAME), (2.8e-3, 1, SAME),  # plain convolutional nets', of rows whose own gradients are 1.9 long
    (1.15e-4, 2, SAME), (2e-2, 0, DIFFERENT), (5e-3, 0, DIFFERENT), (2e-2, 1, DIFFERENT),
])  # fmt: skip
def test_gradients_that_nearly_cancel_round_by_what_they_are_added_up_from(apart: float, at: int, kind: FindingKind) -> None:
    steps = list(other(1e-5, later=1e-5, length=1.2, length_first=1.2).steps)
    figures = steps[at].against
    assert figures is not None
    steps[at] = replace(steps[at], against=replace(figures, apart=apart, rest=apart, length=0.0536, length_first=0.0536))
    assert compare(first(), replace(other(), steps=tuple(steps))).kind is kind


@pytest.mark.parametrize(("rest", "length", "kind", "why"), [
    (1e-7, 4.0, FindingKind.WEIGHTED, "each micro-batch is averaged by itself"), (0.4, 1.0, DIFFERENT, "or something isn't divided"),
    (0.0, 0.0, DIFFERENT, "its rows see each other (a contrastive loss, a layer that looks across the micro-batch); 50.0% apart"),
])  # fmt: skip
def test_one_row_repeated_tells_weights_from_rows_that_see_each_other(rest: float, length: float, kind: FindingKind, why: str) -> None:
    found = with_one_row(judged(0.5, 0.8, 0.5), first(), other(1.0, factor=4.0, rest=rest, length=length))
    assert found.kind is kind and why in found.why and found.power == (1 if length > 1 else 0)


def test_rows_that_were_equal_in_the_first_step_by_luck_are_told_from_gradients_that_are_never_cleared() -> None:
    """Weighted classes, of twins of two rows: both of one class, then of two."""
    later = compare(first(), other(later=0.7))
    found = with_one_row(later, first(), other())
    assert found.kind is FindingKind.WEIGHTED and found.power == 0 and "(70.0% apart)" in found.why
    assert with_one_row(later, first(), other(later=0.9)) is later


@pytest.mark.parametrize("length", [0.0, math.nan])
def test_one_row_without_a_target_tells_nothing(length: float) -> None:
    different = judged(0.5, 0.8, 0.5)
    assert with_one_row(different, first(), other(0.0, factor=0.0, rest=0.0, length=length, length_first=length)) is different


def test_a_learning_rate_that_hangs_on_the_batch_is_named_with_both_numbers() -> None:
    said = certified(first(), other(rates=(0.025, 0.025, 0.025)))
    assert said.schedule == "differs: the learning rate of step 1 is 0.025 at 1 x 4, 0.1 at 4 x 1" and said.verdict == "different"


def test_a_schedule_that_is_stepped_more_often_and_has_not_moved_yet_is_different() -> None:
    """A milestone after 100 batches, say: no twin comes as far."""
    found = compare(first(), other(scheduled=4))
    assert found.kind is DIFFERENT and found.of == "schedule" and "is stepped with every micro-batch (4 times at 1 x 4, 1" in found.why


@pytest.mark.parametrize(("changed", "said"), [
    (Twin(micro_batch=1, accumulation=4, why="no optimizer of torch's made a step"), "no optimizer of torch's made a step"),
    (replace(other(), rows=()), "its rows can't be seen"), (other(weights="other"), "its weights begin differently"),
    (other(mismatch="2 parameters instead of 3"), "2 parameters instead of 3"), (other(0.5, rest=0.5, rows=("z",) * 12), "other rows"),
    (other(math.nan, length=math.nan), "not finite"),
    (other(0.0, length_first=0.0), "are zero"),
])  # fmt: skip
def test_what_cant_be_compared_is_said_with_its_reason(changed: Twin, said: str) -> None:
    found = compare(first(), changed)
    assert found.kind is UNCOMPARABLE and said in found.why
    assert all(line == f"not comparable because {found.why}" for line in certificate(found, first(), changed).lines.values())


def test_rows_that_are_others_at_the_same_place_are_made_from_the_micro_batch() -> None:
    """As TRL's KTO makes them: each prompt with another answer of its micro-batch. Where all are others, they are drawn anew."""
    asked, rows = first(at={"0-7": "a", "0-8": "b"}), ("z",) * 12
    found = compare(asked, other(at={"0-7": "a", "0-8": "c"}))
    assert found.kind is DIFFERENT and found.of == "samples" and "row 8 is another at 1 x 4 than at 4 x 1" in found.why
    assert compare(asked, other(0.5, rest=0.5, rows=rows, at={"0-7": "d", "0-8": "c"})).kind is UNCOMPARABLE


def test_a_script_that_ignores_its_accumulation_takes_other_samples() -> None:
    found = compare(first(), other(0.5, rest=0.5, rows_each=1))
    assert found.kind is DIFFERENT and found.of == "samples" and "made of 1 samples at 1 x 4, not of 4" in found.why


def test_gradients_that_are_never_cleared_show_in_the_second_step() -> None:
    found = compare(first(), other(later=0.9))
    assert found.kind is DIFFERENT and "the first update is the same, those after it are not" in found.why
    assert found.of == "gradient", "a trainer that weighs images by their targets may find more of them in the second batch (yolov13)"
    assert compare(first(), other(later=2e-3)).kind is DIFFERENT and compare(first(), other(later=2e-4)).kind is SAME


def test_rounding_that_grows_with_each_step_hides_later_ones_and_is_no_difference() -> None:
    """karpathy's autoresearch, whose Muon rounds to half precision: 8e-8, 7e-5 and 1.2e-2 apart."""
    said = certified(first(), other(8e-8, later=7e-5, last=1.2e-2))
    assert said.verdict == "not_comparable" and said.gradient.startswith("not comparable because rounding grows 875 times with each step")
    assert (said.steps, said.schedule, said.samples) == (PROVEN,) * 3 and said.apart == 8e-8
    more = other(4e-7, later=5e-4, last=0.2)
    for grown in (more, other(8e-8, later=2e-7, last=1.2e-2), other(8e-8, later=2e-3, last=1.2e-2), other(1e-6, later=7e-5, last=1.2e-2)):
        assert compare(first(), grown).kind is DIFFERENT, "it comes of something else"
    assert compare(first(), other(0.0, later=5e-7, last=9e-4)).why == "", "as far as that it is the same anyway"


def test_weights_that_change_between_micro_batches_are_told_though_the_gradients_hardly_show_it() -> None:
    found = compare(first(), other(3e-5, strayed=2e-5))
    assert found.kind is DIFFERENT and "something else than its optimizer changes its weights" in found.why
    assert compare(first(), other(strayed=1e-7)).kind is SAME, "normalized anew, it is rounded"
    assert compare(first(strayed=2e-5), other(strayed=2e-5)).kind is SAME


def test_what_moves_beside_the_weights_with_every_micro_batch_is_different() -> None:
    found = compare(first(), other(beside=2.3))
    assert found.kind is DIFFERENT and "an average of them" in found.why and "the update itself is the same" in found.why
    assert compare(first(), other(beside=1e-3)).kind is SAME


def test_other_lengths_are_told() -> None:
    assert certified(twin(4, 1, steps=8), other(steps=2)).steps == "differs: 2 optimizer steps are made at 1 x 4, 8 at 4 x 1"
    long, short = twin(4, 1, steps=8), other(steps=2)
    assert certified(replace(long, ended="limit"), short).steps == certified(long, short).steps, "it would have made more still"
    assert certified(long, replace(short, ended="limit")).steps.startswith("not comparable"), "it may make as many"
    asked, fewer = first(whole=(64, 64)), other(whole=(16, 16))
    assert certified(asked, fewer).samples == "differs: a pass takes 16 samples at 1 x 4, 64 at 4 x 1"
    assert certified(asked, other(whole=(62, 62))).proven
    assert certified(asked, other(whole=(256, 64))).proven, "TRL's GRPO: each batch is given once for each micro-batch"


def test_an_end_that_was_not_reached_proves_no_number_of_steps() -> None:
    said = certified(first(ended="limit"), other(ended="limit"))
    assert said.gradient == PROVEN and not said.proven and said.verdict == "same"
    assert said.steps.startswith("not comparable because its end was not reached in 3 optimizer steps")
    assert said.counted and not replace(said, samples="differs").counted and not certified(first(), other()).counted


def test_a_smaller_step_at_the_end_of_a_pass_is_told_apart_from_all_the_others() -> None:
    ragged = first(ragged=True)
    assert certified(ragged, other()).proven
    figures = other().steps[2].against
    assert figures is not None
    weighed = other(steps=2)
    weighed = replace(weighed, steps=(*weighed.steps, replace(other().steps[2], against=replace(figures, apart=0.5))), rows=other().rows)
    lost = other(last=0.5, rows=(*other().rows[:8], "a", "b", "c", "d"), rates=(0.1, 0.1, 0.5))
    for told, why in ((weighed, "weighs its micro-batches otherwise"), (lost, "isn't made of the rows that are left")):
        said = certified(ragged, told)
        assert said.gradient == PROVEN and said.samples.startswith("differs at the end of each pass") and why in said.samples
        assert said.schedule == PROVEN and said.verdict == "same"


def test_batch_norm_is_told() -> None:
    said = certified(first(batch_norm=True), other())
    assert said.gradient == BATCH_NORM and said.verdict == "same" and not said.proven


def test_a_certificate_comes_back_from_its_record() -> None:
    made = certified(first(), other())
    assert made.proven and TypeAdapter(SameTraining).validate_json(TypeAdapter(SameTraining).dump_json(made)) == made
