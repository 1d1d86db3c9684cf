"""Corrections by real peaks: a scale on a card, an offset on a CPU, both where the points are far apart; and that they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.forecast import correction as ratios
from launcher.forecast.correction import Correction, Seen
from launcher.shared.sizes import GIB, MIB


def seen(foreseen: float, real: float, *, phase: str = "train", device: str = "t4") -> Seen:
    return Seen(trainer="ultralytics", device=device, phase=phase, foreseen_bytes=int(foreseen), real_bytes=int(real))


def test_nothing_seen_corrects_nothing() -> None:
    assert ratios.correction([], proportional=True) == Correction()


def test_one_trial_on_a_card_scales_the_others() -> None:
    assert ratios.correction([seen(10 * GIB, 11 * GIB)], proportional=True).scale == pytest.approx(1.1)


def test_one_trial_on_a_cpu_moves_the_others() -> None:
    found = ratios.correction([seen(300 * MIB, 340 * MIB)], proportional=False)
    assert (found.scale, found.offset) == (1.0, 40 * MIB)


def test_points_far_apart_tell_a_slope_from_an_offset() -> None:
    found = ratios.correction([seen(x * GIB, (1.2 * x + 0.5) * GIB) for x in (1, 2, 4, 8)], proportional=True)
    assert found.scale == pytest.approx(1.2, abs=1e-6) and found.offset == pytest.approx(0.5 * GIB, rel=1e-6)


def test_one_point_that_is_far_off_moves_little() -> None:
    points = [seen(x * GIB, 1.1 * x * GIB) for x in (1, 2, 3, 4, 5, 6)] + [seen(3.5 * GIB, 20 * GIB)]
    assert ratios.correction(points, proportional=True).scale == pytest.approx(1.1, abs=0.1)


def test_no_correction_is_beyond_belief() -> None:
    assert ratios.correction([seen(1 * GIB, 9 * GIB)], proportional=True).scale == ratios.STEEPEST[1]


def test_what_was_kept_is_known_by_trainer_device_and_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    one, other = seen(GIB, 2 * GIB), seen(GIB, 3 * GIB, phase="validate")
    ratios.keep([one])
    ratios.keep([other])
    with ratios.file().open("a") as file:
        file.write('{"torn": ')
    assert ratios.known() == [one, other]
    assert ratios.of(ratios.known(), trainer="ultralytics", device="t4", phase="train") == [one]
