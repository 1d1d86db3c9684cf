"""What is made of a script's second process, and which checkpoint it begins with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.common.orders import Orders
from autofit_launcher.common.report import SAVED, VERSIONS, Failure, Phase, PhaseUse, TrialReport
from autofit_launcher.inside import going_on, kept_checkpoint
from autofit_launcher.inside.overlay import FILES
from autofit_launcher.trial import trial


def failure(*types: str, message: str = "") -> Failure:
    return Failure(types=(*types, "Exception"), message=message or f"{types[0]}: 'optimizer'", traceback="")


def orders_of(place: Path, **payload: Any) -> Orders:
    folder = str(place / "resumed")
    return Orders(module="m", folder=folder, main=str(place), device="cpu", cap_bytes=0, accumulation=1, resumes=True, payload=payload)


def told(place: Path, failure: Failure | None, *, status: int = 1, steps: int = 0, **more: Any) -> TrialReport:
    """What becomes of a second process that failed so."""
    orders = orders_of(place, micro_batch=8)
    try:
        return going_on.gone_on(TrialReport(failure=failure, optimizer_steps=steps, **more), status, "/out/1.pt", orders)
    except going_on.Untried as why:
        return why.report()


@pytest.mark.parametrize(
    ("types", "phase", "accused"),
    [
        (("KeyError", "LookupError"), "setup", True),
        (("ExitStatus",), "start", True),  # argparse's, of words that it doesn't know
        (("KeyError", "LookupError"), "train", False),  # later: the trial cuts its training
        (("UnboundLocalError", "NameError"), "setup", False),  # nothing was left to train: it breaks behind its loop
        (("FileNotFoundError", "OSError"), "setup", False),  # native code doesn't find what lies in the overlay
    ],
)
def test_a_script_that_fails_before_a_batch_can_not_load_what_it_saved(
    types: tuple[str, ...], phase: str, accused: bool, tmp_path: Path
) -> None:
    report = told(tmp_path, failure(*types), phase=phase)
    assert (report.failure is not None) == accused
    if not accused:
        assert f"its training makes no step from /out/1.pt: {types[0]}" in report.notes[0]


def test_one_that_stepped_has_gone_on_and_all_of_it_is_that_phase(tmp_path: Path) -> None:
    uses = [
        PhaseUse(phase=name, seconds=1.0, batches=2, allocated_bytes=1, reserved_bytes=1, device_bytes=1) for name in ("start", "train")
    ]
    report = told(tmp_path, failure("UnboundLocalError"), steps=3, uses=tuple(uses), observed={"micro_batch": 8, "accumulation": 3})
    assert (report.phase, report.failure, report.observed) == (Phase.DONE, None, {"micro_batch": 8})
    assert [use.phase for use in report.uses] == ["start", "resume"]
    assert report.notes[0].startswith("goes on from /out/1.pt, which was loaded; after its steps it broke: UnboundLocalError")


def test_memory_and_death_stay_what_they_are_however_many_steps_there_were(tmp_path: Path) -> None:
    full = Failure(types=("OutOfMemoryError",), message="OutOfMemoryError: CUDA out of memory.", traceback="")
    assert told(tmp_path, full, steps=3).failure == full
    perhaps = Failure(types=("RuntimeError",), message="RuntimeError: can't start new thread", traceback="")
    assert told(tmp_path, perhaps, steps=3).failure == perhaps, "whether it is one of memory hangs on how full that was"
    hidden = told(tmp_path, None, status=0, steps=3, observed={"micro_batch": 4}, swallowed=("OutOfMemoryError",))
    assert hidden.swallowed == ("OutOfMemoryError",), "it halves its batch: that is no other batch of its own"
    assert told(tmp_path, None, status=-11, steps=3, phase=Phase.RESUME.value).phase == Phase.RESUME


def written(root: Path, path: str, text: str, at: float) -> None:
    twin = Path(f"{root / FILES}{path}")
    twin.parent.mkdir(parents=True, exist_ok=True)
    twin.write_text(text)
    os.utime(twin, (at, at))


HOW: dict[str, Any] = {"newest": "/out/*.json", "holds": []}


def test_the_second_process_finds_the_checkpoint_of_a_training_that_was_not_over_and_none_newer(tmp_path: Path) -> None:
    orders = orders_of(tmp_path, goes_on=HOW)
    first, second = orders.scratch / "cut" / "overlay", orders.scratch / "resumed" / "overlay"
    for number in (1, 2):
        written(first, f"/out/{number}.json", json.dumps(number), at=number)
    kept_checkpoint.keep(first, HOW)
    written(first, "/out/2.json", json.dumps("over"), at=3)
    written(first, "/out/3.json", json.dumps("over"), at=4)
    assert going_on.found(orders, overlay=second) == "/out/2.json"
    there = Path(f"{second / FILES}/out")
    assert {path.name: json.loads(path.read_text()) for path in there.iterdir()} == {"1.json": 1, "2.json": 2}
    assert sum(path.is_file() for path in second.rglob("*")) == 2, "the one that was kept takes no room twice"


@pytest.mark.parametrize(
    ("kept", "why"),
    [(None, "its trial has saved nothing like /out"), (False, "only when its training was over"), (True, "it saves in a thread, perhaps")],
)
def test_where_there_is_none_it_is_said_why(kept: bool | None, why: str, tmp_path: Path) -> None:
    orders = orders_of(tmp_path, goes_on=HOW)
    overlay = orders.scratch / "cut" / "overlay"
    overlay.mkdir(parents=True)
    if kept is not None:
        written(overlay, "/out/1.json", "[1, 2", at=1)
    if kept:
        kept_checkpoint.keep(overlay, HOW)
    with pytest.raises(going_on.Untried, match=why):
        going_on.found(orders, overlay=overlay.parent.parent / "resumed" / "overlay")


def test_what_a_run_keeps_at_once_is_all_that_its_trial_has_left_or_two(tmp_path: Path) -> None:
    for number in (1, 2):
        written(tmp_path, f"/out/{number}.json", "x" * 100_000, at=number)
    assert kept_checkpoint.on_disk(tmp_path, HOW) == {}, "none of a training that was not over"
    kept_checkpoint.keep(tmp_path, HOW)
    one = os.stat(f"{tmp_path / FILES}/out/2.json").st_blocks * 512
    assert one >= 100_000
    assert kept_checkpoint.on_disk(tmp_path, HOW) == {SAVED: {"at": "/out/2.json", "bytes": 2 * one}}
    written(tmp_path, "/out/3.json", "x" * 100_000, at=3)
    assert kept_checkpoint.on_disk(tmp_path, HOW)[SAVED]["bytes"] == 3 * one
    for number in (1, 3):
        Path(f"{tmp_path / FILES}/out/{number}.json").unlink()
    assert kept_checkpoint.on_disk(tmp_path, HOW)[SAVED]["bytes"] == 2 * one, "one file, written anew beside itself"


def test_a_disk_is_judged_where_the_run_would_save(tmp_path: Path) -> None:
    saved = {SAVED: {"at": str(tmp_path / "out" / "last.pt"), "bytes": 7}}
    assert trial.kept_bytes(TrialReport(facts=saved), tmp_path) == 7
    assert trial.kept_bytes(TrialReport(facts={**saved, VERSIONS: {"lightning": "2.5"}}), tmp_path) is None
    assert trial.kept_bytes(TrialReport(facts={SAVED: {"at": "/proc/x/last.pt", "bytes": 7}}), tmp_path) is None
    assert trial.kept_bytes(TrialReport(), tmp_path) is None
