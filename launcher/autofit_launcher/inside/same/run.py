"""Takes orders whose payload is some twins of a training; runs each as a process of its own, one after the other.

A twin is the person's own command with another layout of the same optimizer step, its writes redirected, held to the budget, with
``twin`` in it. What each saw lies in ``NAME/records/PID/twin.json`` of the orders' folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from autofit_launcher.common import procfs
from autofit_launcher.common.orders import FAILED, TEMPORARY, TURN, Orders
from autofit_launcher.common.report import Phase, TrialReport
from autofit_launcher.inside.caches import CACHES, separate
from autofit_launcher.inside.forks import Forked
from autofit_launcher.inside.plainly import OVERLAY, started
from autofit_launcher.inside.quiet import QUIET
from autofit_launcher.inside.recorder import Recorder

EXACT = {"PYTHONHASHSEED": "0", "TORCHDYNAMO_DISABLE": "1", "PYTORCH_JIT": "0", "NVIDIA_TF32_OVERRIDE": "0", "MPLBACKEND": "Agg"}
"""Sets in one order, no kernels that are compiled for a layout, no TorchScript, which can't compile what stands in the place of a draw, no
TF32, which convolutions on a card have unasked (emulated, its rounding is 7e-5 of YOLO11's gradients, near what tells another training),
no windows."""


LOOK_S = 0.05


class _Begun(NamedTuple):
    """A twin under way."""

    child: subprocess.Popen[bytes] | Forked
    place: Path
    temporary: str

    @property
    def turn(self) -> Path:
        return self.place / TURN


def run(orders: Orders, recorder: Recorder) -> None:
    """Runs the twins in their order, each of which has ``name``, ``argv``, ``env``, ``files`` and ``told``. As long as host memory has room
    for both (``free`` bytes), the next is begun beside one, and waits for its turn at the device. If one fails that wasn't alone (of a
    port that both would have), it is run again, and so is each by itself from then on."""
    left, ahead, free = list(orders.payload["twins"]), None, orders.payload["free"]
    while left:
        this, alone, ahead = ahead or _begun(orders, left[0]), ahead is None, None
        until = time.monotonic() + orders.payload["limit_s"]
        this.turn.touch()
        while this.child.poll() is None and time.monotonic() < until:
            room = procfs.leaves_room(this.child.pid, free=free)
            if ahead is None and len(left) > 1 and room:
                ahead, alone = _begun(orders, left[1]), False
            elif ahead is not None and not room:
                _end(ahead)
                ahead = None
            time.sleep(LOOK_S)
        failed = bool(this.child.poll())
        if failed and alone:
            (this.place / FAILED).touch()
        if failed and not alone:
            free = 0
            if ahead is not None:
                _end(ahead)
                ahead = None
        else:
            left = left[1:]
        _end(this)
    TrialReport(phase=Phase.DONE.value).write(orders.report_path)


def environment(orders: Orders, twin: dict[str, Any], place: Path) -> dict[str, str]:
    """Makes the environment of a twin's process beside the probe."""
    env = {**os.environ, **QUIET, **EXACT, **twin["env"]}
    return {**env, **separate(env, place / CACHES, launch=Path(orders.cache or orders.scratch))}


def _begun(orders: Orders, twin: dict[str, Any]) -> _Begun:
    """Begins a twin. Its folder shows what became of it."""
    temporary, place = tempfile.mkdtemp(dir=os.environ.get(TEMPORARY) or None), Path(orders.folder) / twin["name"]
    shutil.rmtree(place / "records", ignore_errors=True)
    (place / "records").mkdir(parents=True)
    for path, text in twin["files"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    own, env = replace(orders, payload={"argv": twin["argv"]}), environment(orders, twin, place)
    with (place / "log").open("wb") as log:
        told = {"budget_only": True, "same": twin["told"], "turn": str(place / TURN)}
        return _Begun(started(own, place, env, temporary=temporary, log=log, **told), place, temporary)


def _end(one: _Begun) -> None:
    """Ends a twin, so that nothing of it is left save its records and its log. Ranks have sessions of their own."""
    for pid in procfs.descendants(one.child.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(one.child.pid, signal.SIGKILL)
    one.child.wait()
    for leaves in (one.place / OVERLAY, one.place / CACHES, Path(one.temporary)):
        shutil.rmtree(leaves, ignore_errors=True)
