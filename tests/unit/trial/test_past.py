"""What is kept of trials, what it says of a later launch's rungs, and what becomes of a file that can't be used."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from autofit_launcher.common.report import PhaseUse, TrialReport
from autofit_launcher.common.sizes import GIB
from autofit_launcher.ladder.rungs import Ladder, Wheel, build
from autofit_launcher.ladder.search import Tried
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trial import past
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial
from tests.helpers import surfaces
from tests.helpers.surfaces import Surface, searched

LADDER = build([Wheel(name="micro_batch", values=(16, 8, 4, 2, 1))], effective_batch=16)


def job(cap: float = 10, *, training: str = "mine", device: str = "cpu", ladder: Ladder = LADDER) -> Job:
    budget = SimpleNamespace(name=device, cap_bytes=int(cap * GIB))
    return cast(Job, SimpleNamespace(training=training, budget=budget, ladder=ladder))


def kept(index: int, gib: float, kind: Kind = Kind.FITS, *, of: Job | None = None) -> None:
    sizes = {"train": int(gib * GIB), "validate": int(gib * GIB / 2)}
    uses = tuple(PhaseUse(phase=phase, seconds=1.0, reserved_bytes=size) for phase, size in sizes.items())
    verdict = Verdict(kind=kind, phase="train", why="", peak_bytes=int(gib * GIB))
    report = TrialReport(uses=uses)
    past.keep(of or job(), Trial(rung=LADDER.rungs[index], verdict=verdict, report=report, seconds=2.0, folder=Path()))


def known(of: Job) -> dict[int, float | None]:
    return {one.rung.index: one.need for one in past.of(of)}


def test_what_was_measured_is_a_part_of_the_cap_of_now_and_of_a_rung_the_last_counts() -> None:
    assert known(job()) == {}
    kept(2, 9.0)
    kept(2, 8.0)
    assert known(job()) == {2: pytest.approx(0.8)}
    (seen,) = past.of(job(5))
    assert seen.verdict.fits and seen.need == pytest.approx(1.6)
    assert seen.by_phase == {"train": pytest.approx(1.6), "validate": pytest.approx(0.8)}


def test_a_failure_bounds_nothing_where_there_is_more_room_than_it_had() -> None:
    kept(1, 11.0, Kind.OUT_OF_MEMORY)
    assert known(job()) == {1: pytest.approx(1.1)} and known(job(20)) == {}


def test_what_is_no_measurement_is_not_kept_and_a_rung_that_the_ladder_has_not_is_left_out() -> None:
    kept(0, 11.0, Kind.CRASHED)
    kept(0, 0.0)
    assert not past.file().exists()
    kept(3, 8.0)
    assert known(job(ladder=build([Wheel(name="micro_batch", values=(16, 8, 4))], effective_batch=16))) == {}


def test_another_training_another_device_and_another_folder_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(2, 8.0, of=job(training="other"))
    kept(2, 8.0, of=job(device="gpu"))
    assert known(job()) == {}
    kept(2, 8.0)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert known(job()) == {}


def test_a_torn_line_and_one_of_another_version_spoil_no_other() -> None:
    kept(2, 8.0)
    with past.file().open("a") as file:
        file.write(f'\n{{"folder": "{Path.cwd()}", "training": "mine", "device": "cpu"}}\n[1]\n{{"training": "mi')
    kept(3, 4.0)
    assert known(job()) == {2: pytest.approx(0.8), 3: pytest.approx(0.4)}


def test_a_file_that_cannot_be_used_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    kept(2, 8.0)
    assert known(job()) == {}


@pytest.mark.parametrize("cap", [10, 7, 16])
def test_a_launch_with_the_same_needs_makes_no_trial_but_the_proof_whatever_its_budget(cap: float) -> None:
    """Without it, by its own trials alone: three to five."""

    def surface(of: float) -> Surface:
        needs: dict[int, dict[str, float]] = {
            rung.index: dict.fromkeys(surfaces.PHASES, (2 + 1.5 * rung.micro_batch) / of) for rung in LADDER.rungs
        }
        return Surface(LADDER, needs)

    def measured(tried: Tried) -> None:
        kept(tried.rung.index, 2 + 1.5 * tried.rung.micro_batch, tried.verdict.kind)

    list(map(measured, searched(surface(10), "predicted").history))
    found, walked = searched(surface(cap), "predicted", past.of(job(cap))), searched(surface(cap), "walk")
    assert found.chosen == walked.chosen and found.trials == 2
