"""A trial's second process: the checkpoint that the first one's training saved, and the copy of it that is gone on from.

A run is gone on with from a copy that has the rung's arguments, made by a process of its own (``resuming.copied``). So is a trial.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.shared.orders import REPORT, Orders
from launcher.shared.report import Phase, TrialReport
from launcher.trainers.ultralytics.arguments import KEPT, NOT_AT_RESUME

_INSIDE = "launcher.trainers.ultralytics.inside.checkpoint"
_TOLD = ("data", "device")
"""What a ``yolo`` command that goes on says beside its checkpoint (``resuming.going_on``)."""


def copy_of(orders: Orders) -> Path:
    """Each rank makes its own."""
    return orders.scratch / "native" / f"attempt-{orders.rank + 1}.pt"


def keep(last: Path, orders: Orders) -> None:
    """The first checkpoint of a training that isn't over: what a run that dies later goes on from. Its end strips the last one."""
    kept = _kept(orders)
    if not kept.exists() and last.exists():
        os.link(last, kept)


def _kept(orders: Orders) -> Path:
    return orders.scratch / KEPT


def told(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What ``model.train`` is given in place of a rung's arguments."""
    return {**{key: arguments[key] for key in _TOLD if key in arguments}, "resume": True}


def needs_its_end(orders: Orders) -> bool:
    """Whether a trial that goes on validates, saves and ends once more. Not where the first process had no more alive then than half of
    what its training took of a card, where that is exact: whatever is held of the checkpoint is there in the training, too, and what fits
    then leaves room for the end.
    """
    first = TrialReport.read(Path(orders.main) / REPORT)
    if first is None or orders.device != "cuda":
        return True
    after = max((use.allocated_bytes + use.outside_bytes for use in first.uses if use.phase in _AFTERWARDS), default=0)
    kept = first.growth_bytes_per_batch * max(0, first.validation_batches_total - first.validation_batches)
    return 2 * (after + kept) > max(use.held_bytes for use in first.uses if use.phase == Phase.TRAIN)


_AFTERWARDS = (Phase.VALIDATE, Phase.SAVE, Phase.FINISH)


class Copying:
    """The process that makes the copy. It runs while this one imports what it needs."""

    def __init__(self, orders: Orders, arguments: Mapping[str, Any]) -> None:
        said = {key: value for key, value in arguments.items() if key not in NOT_AT_RESUME}
        copy = copy_of(orders)
        copy.parent.mkdir(exist_ok=True)
        words = ("try", str(_kept(orders)), str(copy), json.dumps(said))
        self._child = subprocess.Popen([sys.executable, "-m", _INSIDE, *words], stderr=subprocess.PIPE, text=True)

    def done(self) -> None:
        """Waits for it. Raises RuntimeError where the checkpoint can't be loaded, or is none to go on from."""
        _, said = self._child.communicate()
        if self._child.returncode != 0:
            last = said.strip().splitlines()[-1:] or [f"exit status {self._child.returncode}"]
            print(said, file=sys.stderr)
            raise RuntimeError(f"the checkpoint that it has saved can't be gone on from: {last[0]}")
