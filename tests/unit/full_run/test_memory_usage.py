"""A full run's memory, seen from outside in the measure of its trial."""

from __future__ import annotations

import sys
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.common.orders import HELD
from autofit_launcher.common.sizes import MIB
from autofit_launcher.machine import meter, process
from autofit_launcher.trainers.suite import cpu_budget
from tests.helpers.places import ROOT

HOLDS = """
    import mmap, os, sys, time
    held = mmap.mmap(-1, 64 * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    while not os.path.exists(os.environ["SEEN"]):
        time.sleep(0.01)
    held.close()
    while not os.path.exists(os.environ["SEEN_LESS"]):
        time.sleep(0.01)
"""


def watched(tmp_path: Path, argv: tuple[str, ...], *, emulated: bool, base_bytes: int = 0) -> meter.Usage:
    """A program that holds 64 MiB until they were seen, and runs until it was seen without them."""
    place = Path(tempfile.mkdtemp(dir=tmp_path))
    held, seen, less = place / "held", place / "seen", place / "less"
    env = {HELD: str(held), "MALLOC_MMAP_THRESHOLD_": "65536", "SEEN": str(seen), "SEEN_LESS": str(less)}
    child = process.start(argv, env=env, stdout=tmp_path / "out", stderr=tmp_path / "err")
    watch = meter.Usage(child.pid, replace(cpu_budget(512 * MIB), emulated=emulated), held, base_bytes=base_bytes)
    watch.start()

    def each_poll() -> None:
        if watch.peak_bytes >= 56 * MIB:
            seen.touch()
            if watch.now_bytes < 56 * MIB:
                less.touch()

    ending = process.wait(child, stderr=tmp_path / "err", each_poll=each_poll)
    watch.stop()
    assert ending.returncode == 0, ending.stderr_tail
    return watch


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "holds.py"
    path.write_text(textwrap.dedent(HOLDS))
    return path


def test_a_run_that_is_held_to_a_budget_is_measured_above_its_own_base(tmp_path: Path, program: Path) -> None:
    orders = "Orders(module='', folder='', device='cpu', cap_bytes=2**28, accumulation=1, payload={})"
    takes = f"from autofit_launcher.inside import budget\nfrom autofit_launcher.common.orders import Orders\nbudget.take({orders})\n"
    program.write_text(takes + program.read_text())
    watch = watched(tmp_path, (sys.executable, str(program)), emulated=True)
    assert 64 * MIB <= watch.peak_bytes < 66 * MIB


def test_a_run_that_is_not_held_is_measured_above_its_trials_base(tmp_path: Path, program: Path) -> None:
    plain = watched(tmp_path, (sys.executable, str(program)), emulated=False)
    above = watched(tmp_path, (sys.executable, str(program)), emulated=False, base_bytes=8 * MIB)
    assert plain.peak_bytes >= 64 * MIB and abs(plain.peak_bytes - above.peak_bytes - 8 * MIB) < MIB


RANK = """
    import json, os, pathlib, time
    from autofit_launcher.common import procfs
    held = pathlib.Path(os.environ["HELD"])
    held.mkdir(exist_ok=True)
    (held / f"{os.getpid()}.part").write_text(json.dumps({"base_bytes": procfs.data_bytes()}))
    (held / f"{os.getpid()}.part").rename(held / f"{os.getpid()}.json")
    if os.environ["STEPS"] == "yes":
        (held / f"{os.getpid()}.steps").write_text(json.dumps({"steps": [1]}))
    mine = b"x" * 2**26
    while not pathlib.Path(os.environ["SEEN"]).exists():
        time.sleep(0.01)
"""


@pytest.mark.parametrize(("steps", "together"), [("yes", 2), ("no", 1)], ids=["ranks", "workers"])
def test_processes_that_train_together_are_added_up_as_in_their_trial(tmp_path: Path, steps: str, together: int) -> None:
    (tmp_path / "rank.py").write_text(textwrap.dedent(RANK))
    both = "import subprocess, sys; ranks = [subprocess.Popen(sys.argv[1:]) for _ in range(2)]; sys.exit(sum(one.wait() for one in ranks))"
    held, seen = tmp_path / "held", tmp_path / "seen"
    env = {"HELD": str(held), "STEPS": steps, "SEEN": str(seen), "PYTHONPATH": str(ROOT), "MALLOC_MMAP_THRESHOLD_": "65536"}
    argv = (sys.executable, "-c", both, sys.executable, str(tmp_path / "rank.py"))
    child = process.start(argv, env=env, stdout=tmp_path / "out", stderr=tmp_path / "err")
    watch = meter.Usage(child.pid, replace(cpu_budget(512 * MIB), emulated=True), held, base_bytes=0)
    watch.start()
    told = [0.0]

    def each_poll() -> None:
        """Both are there, and were looked for since."""
        told[0] = told[0] or (time.monotonic() if len(list(held.glob("*.json"))) == 2 else 0.0)
        if told[0] and time.monotonic() > told[0] + 4 * meter.JOIN_PERIOD_S and watch.now_bytes > (64 * together - 1) * MIB:
            seen.touch()

    ending = process.wait(child, stderr=tmp_path / "err", each_poll=each_poll, timeout_s=120)
    watch.stop()
    assert ending.returncode == 0, ending.stderr_tail
    assert 64 * together * MIB <= watch.peak_bytes < 66 * together * MIB


def test_a_run_that_told_nothing_was_not_seen_and_is_compared_with_nothing(tmp_path: Path) -> None:
    watch = watched(tmp_path, (sys.executable, "-c", "pass"), emulated=True)
    assert watch.peak_bytes == 0
