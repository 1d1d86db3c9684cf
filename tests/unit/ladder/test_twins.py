"""The decision tree of twins: the figures that a prototype measured of some thirty trainings (decision 007), and the verdict on each."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from launcher.ladder import same_training
from launcher.ladder.same_training import PROVEN, certificate
from launcher.ladder.twins import Finding, FindingKind, Twin, compare, with_one_row
from tests.helpers.updates import twin


def first(**how: object) -> Twin:
    return twin(4, 1, **how)  # type: ignore[arg-type]


def judged(*others: tuple[int, float, float, float], **how: object) -> Finding:
    """The finding on twins at so much accumulation, with (apart, factor, rest) of their first step."""
    made = [twin(4 // k, k, apart=apart, factor=factor, rest=rest, **how) for k, apart, factor, rest in others]  # type: ignore[arg-type]
    return compare(first(), made)


@pytest.mark.parametrize(
    ("k2", "k4", "kind"),
    [
        ((2e-7, 1.0, 2e-7), (2e-7, 1.0, 2e-7), FindingKind.SAME),  # a mean, divided by k
        ((0.5, 0.5, 2e-7), (0.75, 0.25, 2e-7), FindingKind.SCALE),  # a sum, divided by k
        ((1.0, 2.0, 2e-7), (3.0, 4.0, 2e-7), FindingKind.SCALE),  # a mean, not divided
        ((1.0, 2.0, 1e-7), (3.2, 4.05, 0.20), FindingKind.DIFFERENT),  # BERT: at k = 2 its weights are equal by luck
        ((0.25, 1.006, 0.245), (0.52, 0.79, 0.52), FindingKind.DIFFERENT),  # class weights
        ((0.45, 0.9, 0.4), (1.0, 0.0, 0.0), FindingKind.DIFFERENT),  # contrastive: a micro-batch of one has no gradient
        ((7.4e-2, 1.0, 7.4e-2), (9e-2, 1.0, 9e-2), FindingKind.DIFFERENT),  # a batch's standard deviation
    ],
)
def test_the_kinds_of_the_table(k2: tuple[float, float, float], k4: tuple[float, float, float], kind: FindingKind) -> None:
    assert judged((2, *k2), (4, *k4)).kind is kind


@pytest.mark.parametrize(
    ("rest", "length", "kind"), [(1e-7, 4.0, FindingKind.WEIGHTED), (0.4, 1.0, FindingKind.ROWS_SEE), (0.0, 0.0, FindingKind.ROWS_SEE)]
)
def test_one_row_repeated_tells_weights_from_rows_that_see_each_other(rest: float, length: float, kind: FindingKind) -> None:
    different = judged((4, 0.5, 0.8, 0.5))
    repeated = twin(1, 4, apart=1.0, factor=4.0, rest=rest, length=length)
    found = with_one_row(different, first(), repeated)
    assert found.kind is kind
    assert ("a penalty on the weights" in found.why) is (kind is FindingKind.ROWS_SEE and length > 0), "a row by itself had a gradient"


@pytest.mark.parametrize("length", [0.0, math.nan])
def test_one_row_without_a_target_tells_nothing(length: float) -> None:
    different = judged((4, 0.5, 0.8, 0.5))
    assert with_one_row(different, first(), twin(1, 4, apart=0.0, factor=0.0, rest=0.0, length=length, length_first=length)) is different


def test_a_learning_rate_that_hangs_on_the_batch_is_named_with_both_numbers() -> None:
    found = compare(first(), [twin(1, 4, apart=1e-7, rates=(0.025, 0.025, 0.025))])
    assert found.kind is FindingKind.SETTINGS and "0.025 at 1 x 4, 0.1 at 4 x 1" in found.why
    schedule = same_training.certificate(found, first(), [twin(1, 4, apart=1e-7, rates=(0.025, 0.025, 0.025))]).schedule
    assert schedule.startswith("differs by the learning rate")


def test_gradients_that_are_not_finite_are_neither_same_nor_different() -> None:
    found = judged((4, math.nan, math.nan, math.nan), length=math.nan)
    assert found.kind is FindingKind.UNCOMPARABLE and "not finite" in found.why


def test_batches_that_come_several_times_are_neither_same_nor_different() -> None:
    asked, other = first(), twin(1, 4, apart=0.4, rest=0.4)
    other = replace(other, rows=tuple(row for at in range(0, 12, 4) for row in asked.rows[at : at + 4] * 4), whole=512)
    found = compare(replace(asked, whole=128), [other])
    assert found.kind is FindingKind.UNCOMPARABLE and "each of its batches 4 times at 1 x 4" in found.why


def test_batches_of_several_steps_that_come_several_times_are_neither_same_nor_different() -> None:
    """GRPO's with a generation batch of two steps: 2 times at 4 x 1, 8 times at 1 x 4. A pass that is longer by other rows is told."""
    asked = replace(first(), rows=tuple("aaaabbbbaaaabbbbccccdddd"), whole=384)
    other = replace(twin(1, 4, apart=1.0, rest=1.0), rows=tuple("aaaabbbb" * 4), whole=1536)
    assert "each of its batches 4 times at 1 x 4" in compare(asked, [other]).why
    longer = replace(other, rows=tuple("abcdefghijklmnop"))
    assert compare(asked, [longer]).kind is FindingKind.PASSES


def test_rows_that_are_mixed_in_a_drawn_order_are_neither_same_nor_different() -> None:
    mixed = replace(first(), mixed=True)
    found = compare(mixed, [twin(1, 4, apart=0.4, rest=0.4)])
    assert found.kind is FindingKind.UNCOMPARABLE and "mixup" in found.why
    assert compare(mixed, [twin(1, 4, apart=1e-7)]).kind is FindingKind.SAME, "an order that changes nothing"


def test_what_is_drawn_otherwise_is_neither_same_nor_different() -> None:
    other = replace(twin(1, 4, apart=0.5, rest=0.5), rows=("z",) * 12)
    found = compare(first(), [other])
    assert found.kind is FindingKind.UNCOMPARABLE and found.rows_differ
    certificate = same_training.certificate(found, first(), [other])
    assert not certificate.proven and all(line.startswith("not comparable because other rows") for line in certificate.lines.values())


def test_rows_in_another_order_within_a_step_are_the_same_rows() -> None:
    plain = twin(1, 4, apart=0.5, rest=0.5)
    turned = replace(plain, rows=(*reversed(plain.rows[:4]), *plain.rows[4:]))
    assert compare(first(), [turned]).kind is FindingKind.DIFFERENT
    moved = replace(plain, rows=(plain.rows[4], *plain.rows[1:4], plain.rows[0], *plain.rows[5:]))
    assert compare(first(), [moved]).kind is FindingKind.UNCOMPARABLE


def test_a_script_that_ignores_its_accumulation_takes_other_samples() -> None:
    ignoring = twin(1, 4, apart=0.5, rest=0.5, rows_each=1)
    found = compare(first(), [ignoring])
    assert found.kind is FindingKind.SAMPLES and "made of 1 samples at 1 x 4, not of 4" in found.why


def test_gradients_that_are_never_cleared_show_in_the_second_step() -> None:
    found = compare(first(), [twin(1, 4, apart=1e-7, later=0.9)])
    assert found.kind is FindingKind.DIFFERENT and "the first update is the same, those after it are not" in found.why
    assert with_one_row(found, first(), twin(1, 4, apart=1e-7)) is found, "a first step that is the same doesn't say why"
    assert compare(first(), [twin(1, 4, apart=1e-7, later=2e-3)]).kind is FindingKind.SAME


@pytest.mark.parametrize(
    ("epsilon", "apart", "kind"),
    [
        (2**-7, 4e-3, FindingKind.SAME),  # bfloat16
        (2**-7, 3e-2, FindingKind.DIFFERENT),
        (2**-10, 1e-3, FindingKind.SAME),  # float16
        (2**-10, 4e-3, FindingKind.DIFFERENT),
        (2**-23, 1e-3, FindingKind.DIFFERENT),
    ],
)
def test_weights_that_are_rounded_more_are_held_to_less(epsilon: float, apart: float, kind: FindingKind) -> None:
    found = compare(first(epsilon=epsilon), [twin(1, 4, apart=apart, rest=apart, epsilon=epsilon)])
    assert found.kind is kind


@pytest.mark.parametrize(("changed", "said"), [
    (Twin(micro_batch=1, accumulation=4, why="no optimizer of torch's made a step"), "no optimizer of torch's made a step"),
    (replace(twin(1, 4, apart=1e-7), rows=()), "its rows can't be seen"),
    (twin(1, 4, apart=1e-7, weights="other"), "its weights begin differently"),
    (twin(1, 4, apart=1e-7, mismatch="2 parameters instead of 3"), "2 parameters instead of 3"),
])  # fmt: skip
def test_what_cant_be_compared_is_said_with_its_reason(changed: Twin, said: str) -> None:
    found = compare(first(), [changed])
    assert found.kind is FindingKind.UNCOMPARABLE and said in found.why


def test_weights_that_change_between_micro_batches_are_told_though_the_gradients_hardly_show_it() -> None:
    found = compare(first(), [twin(1, 4, apart=3e-5, weights="other", strayed=2e-5)])
    assert found.kind is FindingKind.BY_HAND and "something else than its optimizer changes its weights" in found.why
    assert compare(first(), [twin(1, 4, apart=1e-7, strayed=1e-7)]).kind is FindingKind.SAME, "normalized anew, it is rounded"
    assert compare(first(strayed=2e-5), [twin(1, 4, apart=1e-7, strayed=2e-5)]).kind is FindingKind.SAME


def test_micro_batches_of_one_row_that_are_trained_on_differently_are_no_rows_that_see_each_other() -> None:
    found = compare(first(), [twin(1, 4, apart=0.5, rest=0.5)])
    counted = with_one_row(found, first(), twin(1, 4, apart=0.5, rest=0.5, uneven=0.4))
    assert counted.kind is FindingKind.DIFFERENT and "something counts them" in counted.why
    assert with_one_row(found, first(), twin(1, 4, apart=0.5, rest=0.5)).kind is FindingKind.ROWS_SEE
    assert "50.0% apart" in counted.why and "0.04% apart" in compare(first(), [twin(1, 4, apart=0.0004, rest=0.0004)]).why


def test_a_stream_that_workers_share_makes_steps_of_other_rows_though_the_update_is_the_same() -> None:
    shared = replace(first(), sharing=2)
    found = compare(shared, [twin(1, 4, apart=1e-7)])
    assert found.kind is FindingKind.SAME and "2 workers share a stream" in found.other_rows
    said = certificate(found, shared, [twin(1, 4, apart=1e-7)])
    assert (
        said.gradient == said.samples and said.samples.endswith("on the same rows it is the same") and said.steps == said.schedule == PROVEN
    )
    assert certificate(compare(replace(first(), sharing=1), [twin(1, 4, apart=1e-7)]), first(), [twin(1, 4, apart=1e-7)]).proven


def test_a_schedule_that_is_stepped_more_often_and_has_not_moved_yet_is_not_proven() -> None:
    """A milestone after 100 batches, say: no twin comes as far."""
    by_batches = [twin(1, 4, apart=1e-7, scheduled=4)]
    said = certificate(compare(first(), by_batches), first(), by_batches)
    assert "stepped 8 times by optimizer step 3 at 1 x 4, 2 times at 4 x 1" in said.schedule and said.gradient == PROVEN
    moves = {"rates": (0.1, 0.2, 0.3)}
    drawn_out = [twin(1, 4, apart=1e-7, scheduled=4, **moves)]  # type: ignore[arg-type]
    assert certificate(compare(first(**moves), drawn_out), first(**moves), drawn_out).proven, "by the rates themselves"


def test_ranks_that_step_by_different_gradients_are_neither_same_nor_different() -> None:
    """Each trains a copy of its own, or a part of the model."""
    found = compare(twin(4, 1, apart=1.2, ranks=2), [twin(1, 4, apart=1e-7, ranks=2)])
    assert found.kind is FindingKind.UNCOMPARABLE and "its 2 ranks step by different gradients (120.0% apart)" in found.why
    apart = twin(4, 1, apart=1e-7, later=0.3, ranks=2)  # together at first alone
    assert "step by different gradients (30.0% apart)" in compare(apart, [twin(1, 4, apart=1e-7, ranks=2)]).why
    assert compare(twin(4, 1, apart=0.0, ranks=2), [twin(1, 4, apart=1e-7, ranks=2)]).kind is FindingKind.SAME
    other = twin(1, 4, apart=1.2, ranks=2)
    other = replace(other, steps=tuple(replace(step, spread=1.2) for step in other.steps))
    assert compare(twin(4, 1, apart=1.2, ranks=2), [other]).kind is FindingKind.UNCOMPARABLE, "as the asked ones do"
    assert compare(twin(4, 1, apart=0.0, ranks=2), [other]).kind is FindingKind.RANKS


def test_fewer_ranks_that_step_by_as_many_samples_are_the_same() -> None:
    found = compare(twin(4, 1, apart=0.0, ranks=2), [twin(1, 8, apart=1e-7)])
    assert found.kind is FindingKind.SAME
    same = certificate(found, twin(4, 1, apart=0.0, ranks=2), [twin(1, 8, apart=1e-7)])
    assert same.proven and same.layouts == ("4 x 1 x 2 ranks", "1 x 8")


@pytest.mark.parametrize(("asked", "why"), [
    (twin(4, 1, apart=0.0, ranks=2, rows_each=16), "each of its 2 ranks reads the whole batch: a step has 16 samples, and 8 are said"),
    (twin(4, 1, apart=0.0, ranks=2, alike=True), "its 2 ranks read the same samples, as without a DistributedSampler: a step has 4"),
])  # fmt: skip
def test_ranks_that_do_not_share_a_batch_are_another_training_on_fewer_and_told_where_their_number_stays(asked: Twin, why: str) -> None:
    """On one rank the step is of the samples that are said."""
    on_one = compare(asked, [twin(1, 8, apart=0.6, rest=0.5)])
    made = asked.read_each_step
    assert on_one.kind is FindingKind.SAMPLES and why in on_one.why and f"8 samples at 1 x 8, of {made} at 4 x 1 x 2 ranks" in on_one.why
    alike = {"ranks": 2, "alike": asked.alike, "rows_each": 16 if made == 16 else None}
    others = [twin(1, 4, apart=1e-7, **alike)]  # type: ignore[arg-type]
    stays = compare(asked, others)
    assert stays.kind is FindingKind.SAME
    same = certificate(stays, asked, others)
    assert same.gradient == PROVEN and not same.proven and why in same.samples and same.samples.startswith("not comparable because")
