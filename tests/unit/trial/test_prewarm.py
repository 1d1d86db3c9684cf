"""The process that has imported before its orders come: really started, and given real orders."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from launcher.machine import host, process
from launcher.shared.orders import Orders
from launcher.trial.prewarm import ROOM_BYTES, Standby

TRIAL = """
import os, sys
from pathlib import Path

def run(orders, recorder):
    print("imported", "weighty" in sys.modules)
    (Path(orders.folder) / "ran").write_text(str(os.getpid()))
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "given.py").write_text(TRIAL)
    (modules / "weighty.py").write_text("from pathlib import Path\n(Path(__file__).parent / 'there').touch()\n")
    return {"PYTHONPATH": str(modules)}


def orders(place: Path) -> Orders:
    place.mkdir(exist_ok=True)
    return Orders(module="given", folder=str(place), device="cpu", cap_bytes=2**30, accumulation=1, payload={})


def until(said: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not said():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_trial_finds_its_imports_done_and_runs_once_its_orders_are_there(tmp_path: Path, env: dict[str, str]) -> None:
    place = tmp_path / "000"
    with Standby(tmp_path / "standby") as standby:
        standby.begin(("weighty", "not_there"), env, beside_bytes=0)
        until((tmp_path / "modules" / "there").exists)
        time.sleep(0.2)
        assert not (place / "ran").exists(), "it waits"
        before = time.monotonic()
        child = standby.take(orders(place), place, ("weighty", "not_there"), env)
        assert child is not None and child.started >= before, "its time counts from its orders on"
        assert process.wait(child, timeout_s=120).returncode == 0
        assert (place / "ran").read_text() == str(child.pid) and "imported True" in (place / "stdout.log").read_text()
        assert standby.take(orders(place), place, ("weighty", "not_there"), env) is None, "it is used once"
    assert not (tmp_path / "standby").exists()


@pytest.mark.parametrize("other", ["env", "imports"])
def test_a_trial_that_wants_another_process_gets_none_and_the_waiting_one_is_ended(tmp_path: Path, env: dict[str, str], other: str) -> None:
    with Standby(tmp_path / "standby") as standby:
        standby.begin(("weighty",), env, beside_bytes=0)
        waits = standby._child
        assert waits is not None
        imports, around = (("json",), env) if other == "imports" else (("weighty",), {**env, "PYTORCH_ALLOC_CONF": "x"})
        assert standby.take(orders(tmp_path / "000"), tmp_path / "000", imports, around) is None
        assert not psutil.pid_exists(waits.pid)


def test_what_nobody_needed_is_ended(tmp_path: Path, env: dict[str, str]) -> None:
    with Standby(tmp_path / "standby") as standby:
        standby.begin(("weighty",), env, beside_bytes=0)
        waits = standby._child
    assert waits is not None and not psutil.pid_exists(waits.pid) and not (tmp_path / "standby").exists()


def test_one_that_died_is_not_given_to_a_trial(tmp_path: Path, env: dict[str, str]) -> None:
    with Standby(tmp_path / "standby") as standby:
        standby.begin(("weighty",), env, beside_bytes=0)
        assert standby._child is not None
        standby._child.process.kill()
        standby._child.process.wait()
        assert standby.take(orders(tmp_path / "000"), tmp_path / "000", ("weighty",), env) is None


def test_none_is_started_where_it_is_not_wanted_or_has_no_room(tmp_path: Path, env: dict[str, str]) -> None:
    with Standby(tmp_path / "no", wanted=False) as standby:
        standby.begin(("weighty",), env, beside_bytes=0)
        assert standby._child is None
    with Standby(tmp_path / "full") as standby:
        standby.begin(("weighty",), env, beside_bytes=host.memory()[1] - ROOM_BYTES // 2)
        assert standby._child is None
        standby.begin((), env, beside_bytes=0)
        assert standby._child is None, "a script's trial imports what it likes"
