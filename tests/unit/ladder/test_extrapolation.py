"""What trials say of rungs that were not tried."""

from __future__ import annotations

import pytest

from launcher.ladder.extrapolation import Measured, load, needs
from launcher.ladder.rungs import Ladder, Wheel, build
from launcher.shared.report import Phase

LADDER = build(
    [
        Wheel(name="val_micro_batch", values=(16, 8), acts_in="validation"),
        Wheel(name="micro_batch", values=(16, 8, 4)),
        Wheel(name="image_size", values=(640, 320)),
        Wheel(name="model", values=("x", "s")),
    ],
    effective_batch=16,
)


def rung(**values: object):  # type: ignore[no-untyped-def]
    wanted = {"val_micro_batch": 16, "micro_batch": 16, "image_size": 640, "model": "x", **values}
    return next(one for one in LADDER.rungs if one.values == wanted)


def seen(train: float, validate: float = 0.0, *, fits: bool = True, failed_in: str = "", **values: object) -> Measured:
    by_phase = {Phase.TRAIN: train, **({Phase.VALIDATE: validate} if validate else {})}
    return Measured(rung=rung(**values), need=max(train, validate), fits=fits, by_phase=by_phase, failed_in=failed_in)


def known(*trials: Measured, predicted: dict[int, float | None] | None = None, ladder: Ladder = LADDER) -> dict[int, float | None]:
    return needs(ladder.rungs, trials, predicted)


def test_nothing_is_known_of_anything_before_a_trial() -> None:
    assert set(known().values()) == {None}


def test_two_trials_give_the_line_in_micro_batch_and_pixels() -> None:
    found = known(seen(0.3, micro_batch=4), seen(0.5, micro_batch=8))
    assert found[rung().index] == pytest.approx(0.9)
    assert found[rung(image_size=320).index] == pytest.approx(0.3), "sixteen of a quarter's pixels are four"
    assert found[rung(model="s").index] is None, "another model is another line"


def test_one_trial_leaves_a_part_standing() -> None:
    found = known(seen(0.5, micro_batch=8))
    need = found[rung().index]
    assert need is not None and 0.5 < need < 1.0


def test_validation_has_a_line_of_its_own_and_the_larger_side_counts() -> None:
    trials = [
        seen(0.2, 0.6, micro_batch=4, val_micro_batch=8),
        seen(0.3, 1.1, micro_batch=8, fits=False, failed_in=Phase.VALIDATE),
    ]
    found = known(*trials)
    assert found[rung(micro_batch=8, val_micro_batch=8).index] == pytest.approx(0.6), "training at 8 was measured: 0.3"
    assert found[rung(val_micro_batch=8).index] == pytest.approx(0.6)
    assert load(rung(val_micro_batch=8), "validation") == 8 * 640 * 640


def test_a_prediction_is_scaled_by_what_was_measured_and_shifted_where_two_trials_tell() -> None:
    predicted: dict[int, float | None] = {one.index: one.micro_batch / 10 for one in LADDER.rungs}
    once = known(seen(0.6, micro_batch=4), predicted=predicted)
    assert once[rung(micro_batch=8).index] == pytest.approx(1.2)
    twice = known(seen(0.6, micro_batch=4), seen(0.9, micro_batch=8), predicted=predicted)
    assert twice[rung().index] == pytest.approx(1.5)


def test_a_failure_lifts_a_forecast_that_was_too_low() -> None:
    predicted: dict[int, float | None] = {one.index: one.micro_batch / 20 for one in LADDER.rungs}
    found = known(seen(1.0, fits=False, failed_in=Phase.TRAIN), predicted=predicted)
    need = found[rung(micro_batch=8).index]
    assert need is not None and need > 0.5


def test_a_failure_in_validation_lifts_no_forecast_of_what_is_validated_otherwise() -> None:
    predicted: dict[int, float | None] = dict.fromkeys((one.index for one in LADDER.rungs), 0.8)
    found = known(seen(0.7, 1.2, fits=False, failed_in=Phase.VALIDATE), predicted=predicted)
    assert found[rung(micro_batch=8).index] == pytest.approx(1.2) and found[rung(model="s").index] == pytest.approx(0.8)


def test_what_was_seen_bounds_what_asks_more_and_what_asks_less() -> None:
    predicted: dict[int, float | None] = dict.fromkeys((one.index for one in LADDER.rungs), 0.1)
    predicted[rung(micro_batch=4).index] = 5.0
    found = known(seen(0.7, micro_batch=8), predicted=predicted)
    assert found[rung().index] == pytest.approx(0.7) and found[rung(micro_batch=4).index] == pytest.approx(0.7)


def test_a_script_that_validates_before_it_trains_and_keeps_its_cache_hides_no_rung_that_fits() -> None:
    """build-nanogpt at 64, 32 and 16 on a played card of 24 GB: each began with a validation; the last was squeezed, and held its cache."""
    ladder = build([Wheel(name="micro_batch", values=(64, 32, 16, 8, 4, 2, 1))], effective_batch=512)

    def failed(index: int, need: float, phase: Phase, **by_phase: float) -> Measured:
        return Measured(rung=ladder.rungs[index], need=max(need, 1.0), fits=False, by_phase=by_phase, failed_in=phase)

    trials = [
        failed(0, 0.67, Phase.VALIDATE, setup=0.04, validate=0.67),
        failed(1, 0.84, Phase.TRAIN, setup=0.04, validate=0.79, train=0.84),
        failed(2, 0.94, Phase.TRAIN, setup=0.04, validate=0.94, train=0.94, train_again=0.94, finish=0.94),
    ]
    need = known(*trials, ladder=ladder)[3]
    assert need is None or 0.3 < need < 1.0
