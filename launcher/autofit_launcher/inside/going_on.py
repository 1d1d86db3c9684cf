"""A script's second process: the checkpoint that its trial has saved, the command that goes on from it, and what is told of that.

What a trial writes lies in an overlay, which the second process takes over: a checkpoint stands there under the path that the script knows.
Payload: ``goes_on``, with ``words`` and ``env`` to add ({checkpoint} stands for the file), ``newest`` (glob of the
checkpoints, absolute), ``holds`` (files without which a folder is none).
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from autofit_launcher.common import checkpoint_files
from autofit_launcher.common.memory_failures import maybe_memory
from autofit_launcher.common.orders import Orders
from autofit_launcher.common.report import NOT_EXACT, Phase, TrialReport
from autofit_launcher.inside import kept_checkpoint
from autofit_launcher.inside.kept_checkpoint import KEPT
from autofit_launcher.inside.plainly import speaks_of_memory

_NO_FAULT = {"FileNotFoundError", "StopIteration", "NameError", "ZeroDivisionError"}
"""Failures before a batch that accuse nobody: native code may not find what lies in the overlay, batches are left out, and a loop that has
nothing left to train leaves no loss behind."""


class Untried(Exception):
    """Signals that it can't be seen whether a training goes on; the message says why."""

    def report(self) -> TrialReport:
        note = f"it was not tried whether it can go on from a checkpoint: {self}"
        return TrialReport(phase=Phase.DONE.value, absent=(Phase.TRAIN.value, Phase.VALIDATE.value, Phase.TRAIN_AGAIN.value), notes=(note,))


def found(orders: Orders, *, overlay: Path) -> str:
    """The newest checkpoint of a training that wasn't over, as the script knows it; ``overlay`` is made of the one that it was kept in.
    Raises Untried."""
    how = orders.payload["goes_on"]
    there = sorted(orders.scratch.glob("*/overlay"), key=os.path.getmtime, reverse=True)
    for one in there:
        if path := kept_checkpoint.newest(one, how, folder=KEPT):
            if torn := checkpoint_files.fault(Path(f"{one / KEPT}{path}")):
                raise Untried(f"{path} was not whole when its training had gone on ({torn}): it saves in a thread, perhaps")
            kept_checkpoint.put_back(one, path, how)
            overlay.parent.mkdir(exist_ok=True)
            one.rename(overlay)
            return path
    if any(kept_checkpoint.newest(one, how) for one in there):
        raise Untried("the trial, which is short, has saved one only when its training was over")
    raise Untried(f"its trial has saved nothing like {how['newest']}")


def from_checkpoint(payload: dict[str, Any], path: str) -> dict[str, Any]:
    """The trial's payload with the command that goes on."""
    how = payload["goes_on"]
    env = {name: value.replace("{checkpoint}", path) for name, value in how["env"].items()}
    words = [word.replace("{checkpoint}", path) for word in (*payload["argv"], *how["words"])]
    return {**payload, "argv": words, "env": {**payload.get("env", {}), **env}}


def gone_on(report: TrialReport, status: int, path: str, orders: Orders) -> TrialReport:
    """Makes the report of the second process: all that came after the start is going on. A script that fails before a batch is trained
    can't load what it has saved. One that makes no step proves nothing, nor that it breaks later for another reason than memory: the trial
    cuts its training. Nor is a loss that isn't finite: it comes further than the first. Raises Untried."""
    uses = tuple(use if use.phase == Phase.START else dataclasses.replace(use, phase=Phase.RESUME.value) for use in report.uses)
    observed = {name: value for name, value in report.observed.items() if name != "accumulation"}  # a pass may go on at its end
    report = dataclasses.replace(report, uses=uses, observed=observed)
    failure = report.failure
    of_memory = failure and (speaks_of_memory(failure) or maybe_memory(failure.message))
    if status < 0 or report.swallowed or of_memory or (failure and NOT_EXACT in failure.types):
        return report
    words = (failure.message.strip().splitlines() or ["?"])[0][:200] if failure is not None else ""
    if not report.optimizer_steps:
        if failure is not None and report.phase in (Phase.START, Phase.SETUP) and not _NO_FAULT & set(failure.types):
            return report
        raise Untried(f"its training makes no step from {path}{words and f': {words}'}")
    if (ran := observed.get("micro_batch")) is not None and orders.payload["micro_batch"] not in (ran, None):
        raise Untried(f"what it trained from {path} were batches of {ran}")
    broke = f"; after its steps it broke: {words}" if words else "; its loss is not finite there" if report.loss_finite is False else ""
    notes = (*report.notes, f"goes on from {path}, which was loaded{broke}")
    return dataclasses.replace(report, phase=Phase.DONE.value, failure=None, hint="", loss_finite=None, notes=notes)
