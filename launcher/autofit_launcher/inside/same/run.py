"""Takes orders whose payload is some twins of a training; runs each as a process of its own, one after the other.

A twin is the person's own command with another layout of the same optimizer step, its writes redirected, held to the budget, with
``twin`` in it. What each saw lies in ``NAME/records/PID/twin.json`` of the orders' folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from autofit_launcher.common import files
from autofit_launcher.common.orders import FAILED, TEMPORARY, Orders
from autofit_launcher.common.report import Phase, TrialReport
from autofit_launcher.inside.caches import CACHES
from autofit_launcher.inside.forks import EXACT
from autofit_launcher.inside.lifeline import kill
from autofit_launcher.inside.plainly import OVERLAY, environment, started
from autofit_launcher.inside.recorder import Recorder


def run(orders: Orders, recorder: Recorder) -> None:
    """Runs the twins in their order (name, argv, env, files, base and told of each), for ``limit_s`` at most. Each one's folder shows what
    became of it."""
    for twin in orders.payload["twins"]:
        temporary, place = tempfile.mkdtemp(dir=os.environ.get(TEMPORARY) or None), Path(orders.folder) / twin["name"]
        (place / "records").mkdir(parents=True)
        for path, text in twin["files"].items():
            files.replace(Path(path), text)
        own = replace(orders, payload={"argv": twin["argv"], "env": {**EXACT, **twin["env"]}, "base": twin["base"]})
        with (place / "log").open("wb") as log:
            child = started(own, place, environment(own, place), temporary=temporary, log=log, budget_only=True, same=twin["told"])
        with contextlib.suppress(subprocess.TimeoutExpired):
            if child.wait(timeout=orders.payload["limit_s"]):
                (place / FAILED).touch()
        kill(child.pid)  # ranks have sessions of their own
        child.wait()
        for leaves in (place / OVERLAY, place / CACHES, temporary):
            shutil.rmtree(leaves, ignore_errors=True)
    TrialReport(phase=Phase.DONE.value).write(orders.report_path)
