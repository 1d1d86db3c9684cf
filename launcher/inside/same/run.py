"""Takes orders whose payload is some twins of a training; runs each as a process of its own, two at a time where there is room.

A twin is the person's own command with another layout of the same optimizer step, its writes redirected, held to the budget, with the hooks
of ``install`` in it. What each saw lies in ``NAME/records/PID/twin.json`` of the orders' folder.

The payload is ``Round``'s fields.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.inside.caches import CACHES, separate
from launcher.inside.lifeline import die_with_parent
from launcher.inside.quiet import QUIET
from launcher.inside.recorder import Recorder
from launcher.inside.same.told import OVER
from launcher.inside.settings import ProbeSettings, injected
from launcher.shared import procfs
from launcher.shared.orders import TEMPORARY, Orders
from launcher.shared.report import Phase, TrialReport

LOOK_S = 0.05
EXACT = {"PYTHONHASHSEED": "0", "TORCHDYNAMO_DISABLE": "1", "PYTORCH_JIT": "0", "MPLBACKEND": "Agg"}
"""Sets in one order, no kernels that are compiled for a layout, no TorchScript, which can't compile what stands in the place of a draw, no
windows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """What is to be run."""

    twins: Sequence[dict[str, Any]]
    """Each with ``name``, ``argv``, ``env``, ``files``, ``told``, ``ranks`` (how many it has) and ``orders`` (of their
    devices); one whose ``against`` names another comes after it, and waits."""
    at_once: int
    limit_s: float
    """For each."""


def run(orders: Orders, recorder: Recorder) -> None:
    """All twins, in their order. What became of each shows in its folder."""
    told = Round(**orders.payload)
    waiting, running = list(told.twins), list[_Running]()
    while waiting or running:
        while waiting and len(running) < told.at_once:
            running.append(_Running(orders, told, waiting.pop(0)))
        for one in [one for one in running if one.over()]:
            running.remove(one)
            one.end()
        time.sleep(LOOK_S)
    TrialReport(phase=Phase.DONE.value).write(orders.report_path)


class _Running:
    """One twin's process."""

    def __init__(self, orders: Orders, told: Round, twin: dict[str, Any]) -> None:
        self._place: Path = Path(orders.folder) / twin["name"]
        self._temporary = tempfile.mkdtemp(dir=os.environ.get(TEMPORARY) or None)
        self._until = time.monotonic() + told.limit_s
        for path, text in twin["files"].items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        settings = self._settings(orders, twin)
        own = {key: str(value) for key, value in twin["env"].items()}
        env = {**os.environ, **QUIET, **EXACT, **_threads(told, twin["ranks"]), "TMPDIR": self._temporary, **own}
        env |= separate(env, self._place / CACHES, launch=Path(orders.cache or orders.scratch))
        env |= injected(settings, env)
        with (self._place / "log").open("wb") as log:
            self._child = subprocess.Popen(
                twin["argv"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent, start_new_session=True
            )

    def _settings(self, orders: Orders, twin: dict[str, Any]) -> Path:
        records, settings = self._place / "records", self._place / "probe.json"
        records.mkdir(parents=True, exist_ok=True)
        first = twin["told"].get("against", "")
        told = {**twin["told"], "against": str(Path(orders.folder) / first / "records") if first else ""}
        ProbeSettings(
            records=str(records), orders=dataclasses.asdict(dataclasses.replace(orders, payload={}, **twin["orders"])),
            overlay=str(self._place / "overlay"), kept=(self._temporary, str(self._place / CACHES)), budget_only=True, same=told,
        ).write(settings)  # fmt: skip
        return settings

    def over(self) -> bool:
        return self._child.poll() is not None or time.monotonic() > self._until

    def end(self) -> None:
        """Nothing of it is left, save its records and its log. Ranks have sessions of their own."""
        for pid in procfs.descendants(self._child.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        (self._place / "records" / OVER).touch()
        for place in (self._place / "overlay", self._place / CACHES, Path(self._temporary)):
            shutil.rmtree(place, ignore_errors=True)


def _threads(told: Round, ranks: int) -> dict[str, str]:
    """Those that run together share the cores."""
    return {"OMP_NUM_THREADS": str(max((os.cpu_count() or 1) // (told.at_once * ranks), 1))}
