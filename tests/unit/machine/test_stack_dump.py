"""A process that hangs tells its stacks where it listens, and is left alone where it doesn't."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from autofit_launcher.common.orders import STACKS
from autofit_launcher.machine import process, stall
from tests.helpers.places import ROOT


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_tells_where_it_hangs_and_goes_on(tmp_path: Path) -> None:
    code = "import time\nfrom autofit_launcher.inside import stacks\nstacks.tell()\n"
    code += "print('here', flush=True)\ndef hangs(): time.sleep(60)\nhangs()"
    told, out = tmp_path / "told", tmp_path / "out"
    env = {STACKS: str(told), "PYTHONPATH": str(ROOT), "RANK": "3"}
    child = process.start((sys.executable, "-c", code), env=env, stdout=out, stderr=tmp_path / "err")
    try:
        until = time.monotonic() + 20
        while "here" not in out.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.2)
        for _ in range(2):
            said = stall.record(child, tmp_path / "stalled.txt", told=told)
            assert ", rank 3): " in said and said.count("in hangs") == 1 and said == (tmp_path / "stalled.txt").read_text()
        assert child.process.poll() is None and os.listdir(told) == [f"{child.pid}.stacks"]
    finally:
        child.end(grace_s=1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_does_not_listen_is_not_asked(tmp_path: Path) -> None:
    child = process.start((sys.executable, "-c", "import time; time.sleep(60)"), env={}, stdout=tmp_path / "out", stderr=tmp_path / "err")
    try:
        assert f"process {child.pid} (" in stall.record(child, tmp_path / "stalled.txt", told=tmp_path)
        time.sleep(0.3)
        assert child.process.poll() is None
    finally:
        child.end(grace_s=1.0)
