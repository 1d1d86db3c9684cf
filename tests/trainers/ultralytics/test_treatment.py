"""Nothing is left out of a trial silently: the table knows every argument of the installed Ultralytics', and the trial keeps to it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from launcher.shared.orders import Orders
from launcher.trainers.ultralytics import arguments, treatment
from launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from launcher.trainers.ultralytics.treatment import OLDER, TABLE, TreatmentKind
from tests.helpers.places import ROOT
from tests.helpers.yolo_recipe import make


def test_the_table_knows_every_argument_of_the_installed_ultralytics_and_no_other() -> None:
    known = {*arguments.known(), *arguments.EXTRA}
    assert known - {*TABLE, *OLDER} == set(), "new in Ultralytics: say what a trial makes of it"
    if f"ultralytics=={version('ultralytics')}" in (ROOT / "constraints.txt").read_text(encoding="utf-8"):
        assert TABLE.keys() - known == set(), "gone from Ultralytics"
        assert OLDER.keys() & known == set(), "not gone from Ultralytics"


def test_an_argument_that_is_new_in_the_installed_version_is_refused_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = {**arguments.known(), "newer": arguments.Argument(default=0, types=("int",))}
    monkeypatch.setattr(treatment, "known", lambda: newer)
    assert treatment.faults({"newer": 0}) == []
    (fault,) = treatment.faults({"newer": 3})
    assert fault.key == "trainer.args.newer" and "no trial can stand for it" in fault.found


def test_every_treatment_says_why() -> None:
    assert [key for key, one in TABLE.items() if len(one.because) < 10] == []


def test_what_runs_in_the_trial_as_asked_really_reaches_it(tmp_path: Path) -> None:
    from launcher.trainers.ultralytics.inside.plan import Plan

    asked = {key: f"asked {key}" for key, one in TABLE.items() if one.kind is TreatmentKind.RUNS}
    payload = {"model": "m", "args": asked, "asked_batch": 8, "asked_nbs": 16, "cache_dir": str(tmp_path / "cache")}
    for device in ("cpu", "cuda"):
        plan = Plan.of(Orders(module="none", folder=str(tmp_path), device=device, cap_bytes=2**30, accumulation=2, payload=payload))
        assert {key: plan.arguments[key] for key in asked} == asked


@pytest.mark.parametrize(("key", "value"), [("time", 2), ("profile", True), ("quantize", 8), ("quantize", "int8")])
def test_an_argument_that_no_trial_can_stand_for_is_refused_with_a_cure(yolo_dataset: Path, key: str, value: Any) -> None:
    (fault,) = UltralyticsAdapter(make(yolo_dataset, args={key: value})).check()
    assert (fault.key, fault.cure) == (f"trainer.args.{key}", TABLE[key].because)


@pytest.mark.parametrize(("key", "value"), [("profile", False), ("quantize", None), ("quantize", 16), ("time", None)])
def test_its_harmless_values_are_not_refused(yolo_dataset: Path, key: str, value: Any) -> None:
    assert treatment.faults({key: value}) == []
