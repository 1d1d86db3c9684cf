"""The process off which a launch forks its trials (``inside.server``), as the launcher starts, sweeps and ends it."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autofit_launcher.common import procfs
from autofit_launcher.common.orders import FORKS, Orders
from autofit_launcher.machine import process
from autofit_launcher.machine.process import Child

MODULE = "autofit_launcher.inside.server"


@dataclass(slots=True)
class Forks:
    """A launch's server for its trials and twins, which is there until its full run begins."""

    _child: Child | None = None
    _place: Path = Path()
    _given_up: bool = False

    def begin(self, orders: Orders, env: Mapping[str, str], place: Path) -> Mapping[str, str]:
        """Starts the server in folder ``place``, if it isn't there; returns the variable that tells a trial of it (empty: none).
        None is started where a command's program isn't Python's, or Python gets words that may keep the probe out (-I), or are it (-m)."""
        program, *words = orders.payload["argv"]
        words = list(itertools.dropwhile(("-u", "-B").__contains__, words))  # with which the same is imported
        keeps_out = os.path.basename(program).startswith("python") and words and words[0].startswith("-")
        if self._given_up:
            return {}
        if keeps_out or not process.is_python(program):
            return {FORKS: ""}
        if self._child is None:
            shutil.rmtree(place, ignore_errors=True)
            self._place = place
            replace(orders, module=MODULE, folder=str(place)).write(place / "orders.json")
            begins = process.python_module("autofit_launcher.inside", str(place / "orders.json"))
            self._child = process.start(begins, env=env, stdout=place / "log", stderr=place / "log")
        return self.told

    @property
    def told(self) -> Mapping[str, str]:
        """The variable that tells of the server, off which what comes is forked where that is safe; empty where there is none."""
        return {FORKS: f"{process.temporary()}/forks.{self._child.pid}"} if self._child is not None else {}

    def adopted_by(self, pid: int) -> None:
        """Counts what is forked from now on as that process's."""
        if self._child is not None:
            procfs.ADOPTED[pid] = self._child.pid

    def sweep(self) -> None:
        """Kills what is left of all that was forked."""
        procfs.ADOPTED.clear()
        if self._child is not None:
            self._child.sweep(but=self._child.pid)

    def give_up(self) -> None:
        """Ends the server, and starts none any more."""
        self.end()
        self._given_up = True

    def end(self) -> None:
        """Ends the server, and leaves nothing of it."""
        if self._child is not None:
            self._child.end(grace_s=0.0)
            shutil.rmtree(self._place, ignore_errors=True)
            self._child = None
