"""Launches that want one device take turns, or share it where all of them say so; and nobody waits for what is over."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.config.recipe import Draft, Provenance
from autofit_launcher.config.schema import DeviceRules, Recipe
from autofit_launcher.engine import prepare
from autofit_launcher.errors import BadInput
from autofit_launcher.machine import device_lock
from tests.helpers import children
from tests.helpers.nvml_stand_in import GIB, FakeCard, FakeNvml

UUID = "GPU-11111111-aaaa"
HOLDS = """
import sys, time
from autofit_launcher.machine import device_lock as turns
with turns.take([sys.argv[1]], share=sys.argv[2] == "share", wait=False):
    print(flush=True)
    time.sleep(float(sys.argv[3]))
"""


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(device_lock.VARIABLE, str(tmp_path / "turns"))
    return tmp_path / "turns"


def another(device: str = UUID, *, share: bool = False, seconds: float = 60.0) -> AbstractContextManager[subprocess.Popen[str]]:
    """Another launch that has the device."""
    return children.child(HOLDS, device, "share" if share else "", str(seconds))


def take(device: str = UUID, *, share: bool = False, wait: bool = False, told: Any = None) -> device_lock.Turn:
    return device_lock.take([device], share=share, wait=wait, told=told)


def test_who_must_not_wait_is_told_who_has_the_device(locks: Path) -> None:
    with another(), pytest.raises(BadInput) as refused:
        take()
    (fault,) = refused.value.faults
    assert fault.key == "device.when_taken" and f"fuser {locks}/{UUID}.lock" in fault.found
    assert "device.share=true" in fault.cure
    with take() as turn:
        assert not turn.waited, "it was given back"


def test_who_waits_hears_for_whom_and_goes_on_after_the_other_has_ended() -> None:
    heard: list[str] = []
    with another() as child, take(wait=True, told=lambda who: (heard.append(who), child.kill())) as turn:
        assert turn.waited and len(heard) == 1 and "fuser" in heard[0]


def test_launches_that_all_share_have_it_together_and_one_that_does_not_waits() -> None:
    with another(share=True), take(share=True), pytest.raises(BadInput):
        take(share=False)
    with another(share=False), pytest.raises(BadInput):
        take(share=True)


def test_every_user_of_the_machine_may_take_a_turn(locks: Path) -> None:
    before = os.umask(0o077)
    with suppress(Exception), take():
        pass
    os.umask(before)
    assert locks.stat().st_mode & 0o7777 == 0o1777
    assert next(locks.iterdir()).stat().st_mode & 0o777 == 0o666


def test_a_link_that_somebody_laid_is_not_followed(locks: Path, tmp_path: Path) -> None:
    locks.mkdir()
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    (locks / f"{UUID}.lock").symlink_to(mine)
    with take():
        pass
    assert mine.read_text() == "precious"


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> FakeCard:
    one = FakeCard()
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(one))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return one


def recipe(**device: Any) -> Recipe:
    raw = {"name": "mine", "ask": {"micro_batch": 8}, "trainer": {"adapter": "script"}, "ladder": {"order": ("micro_batch",)}}
    return Recipe.model_validate({**raw, "device": DeviceRules(**device)})


def test_on_a_card_launches_take_turns_by_its_uuid_and_on_a_cpu_only_where_it_is_asked(card: FakeCard) -> None:
    with prepare.turn_of(recipe(kind="cuda")), another(seconds=0):
        with pytest.raises(BadInput, match="fuser"):
            prepare.turn_of(recipe(kind="cuda", when_taken="stop"))
        with take(card.uuid.replace("GPU", "gpu-other")):
            pass
    with prepare.turn_of(recipe(kind="cpu")), prepare.turn_of(recipe(kind="cpu")):
        pass
    with prepare.turn_of(recipe(kind="cpu", turns=True)), pytest.raises(BadInput):
        prepare.turn_of(recipe(kind="cpu", turns=True, when_taken="stop"))
    with prepare.turn_of(recipe(kind="cuda", turns=False)), prepare.turn_of(recipe(kind="cuda", turns=False)):
        pass


def draft(place: Path, **device: Any) -> Draft:
    script = place / "train.py"
    script.write_text("")
    raw = {
        "name": "mine",
        "ask": {"micro_batch": 8},
        "trainer": {"adapter": "script", "args": {"command": [sys.executable, str(script)], "spelled": {"micro_batch": "--batch"}}},
        "ladder": {"order": ("micro_batch",), "wheels": {"micro_batch": {"floor": 8}}},
        "run": {"root": str(place / "runs")},
    }
    return Draft(recipe=Recipe.model_validate({**raw, "device": DeviceRules(kind="cuda", **device)}), faults=(), provenance=Provenance())


def test_a_launch_waits_for_the_card_of_another_and_budgets_what_is_free_then(card: FakeCard, tmp_path: Path) -> None:
    card.used, card.processes = 12 * GIB, [[(os.getpid(), 12 * GIB)]]
    heard: list[str] = []
    with another(card.uuid) as child:

        def say(words: str, style: str) -> None:
            heard.append(words)
            card.used, card.processes = 0, [[]]
            child.kill()

        job = prepare.prepare(draft(tmp_path), say)
    assert len(heard) == 1 and job.turn.waited
    assert job.budget.free_bytes == card.total - card.reserved
    with job.turn:
        pass


def test_a_card_that_no_launch_of_ours_holds_is_still_refused_at_once(
    card: FakeCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card.used, card.processes = 12 * GIB, [[(os.getpid(), 12 * GIB)]]
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("it waits"))
    with pytest.raises(BadInput) as refused:
        prepare.prepare(draft(tmp_path))
    (fault,) = refused.value.faults
    assert fault.key == "device.share"
    assert not (tmp_path / "runs").exists()
    with take(card.uuid):
        pass
