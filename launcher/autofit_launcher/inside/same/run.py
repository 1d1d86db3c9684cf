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
from dataclasses import replace
from pathlib import Path
from typing import Any

from autofit_launcher.common import procfs
from autofit_launcher.common.orders import FAILED, TEMPORARY, Orders
from autofit_launcher.common.report import Phase, TrialReport
from autofit_launcher.inside.caches import CACHES, separate
from autofit_launcher.inside.plainly import OVERLAY, started
from autofit_launcher.inside.quiet import QUIET
from autofit_launcher.inside.recorder import Recorder

EXACT = {"PYTHONHASHSEED": "0", "TORCHDYNAMO_DISABLE": "1", "PYTORCH_JIT": "0", "NVIDIA_TF32_OVERRIDE": "0", "MPLBACKEND": "Agg"}
"""Sets in one order, no kernels that are compiled for a layout, no TorchScript, which can't compile what stands in the place of a draw, no
TF32, which convolutions on a card have unasked (emulated, its rounding is 7e-5 of YOLO11's gradients, near what tells another training),
no windows."""


def run(orders: Orders, recorder: Recorder) -> None:
    """Runs the twins in their order, each of which has ``name``, ``argv``, ``env``, ``files`` and ``told``."""
    for twin in orders.payload["twins"]:
        _run(orders, twin, Path(orders.folder) / twin["name"], limit_s=orders.payload["limit_s"])
    TrialReport(phase=Phase.DONE.value).write(orders.report_path)


def _run(orders: Orders, twin: dict[str, Any], place: Path, *, limit_s: float) -> None:
    """Runs a twin to its end. Its folder shows what became of it."""
    temporary = tempfile.mkdtemp(dir=os.environ.get(TEMPORARY) or None)
    (place / "records").mkdir(parents=True, exist_ok=True)
    for path, text in twin["files"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    env = {**os.environ, **QUIET, **EXACT, "TMPDIR": temporary, **twin["env"]}
    env |= separate(env, place / CACHES, launch=Path(orders.cache or orders.scratch))
    own = replace(orders, payload={"argv": twin["argv"]})
    with (place / "log").open("wb") as log:
        child = started(own, place, env, temporary=temporary, log=log, budget_only=True, same=twin["told"])
    with contextlib.suppress(subprocess.TimeoutExpired):
        if child.wait(limit_s):
            (place / FAILED).touch()
    _end(child)
    for left in (place / OVERLAY, place / CACHES, Path(temporary)):
        shutil.rmtree(left, ignore_errors=True)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends a twin, so that nothing of it is left save its records and its log. Ranks have sessions of their own."""
    for pid in procfs.descendants(child.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
