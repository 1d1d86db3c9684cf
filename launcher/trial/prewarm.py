"""The process of the trial after this one: started early, it has imported what its trainer imports when its orders come.

About half of a trial on a CPU is imports. It is a process of its own like any other, not a fork of one that has imported: Ultralytics'
and transformers' packages start threads as they are imported, and a fork of them hangs (docs/decisions/019).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.machine import host, process
from launcher.shared.orders import Orders
from launcher.shared.sizes import GIB

ORDERS = "orders.json"
MANY_CORES = 4
"""From so many on an import beside a trial doesn't slow what is timed."""
ROOM_BYTES = 2 * GIB
"""Host memory that must be left beside what the running trial may take."""


class Standby:
    """At most one process that waits. Left, it ends it."""

    def __init__(self, folder: Path, *, wanted: bool = True) -> None:
        self._folder, self._wanted, self._number = folder, wanted, 0
        self._child: process.Child | None = None
        self._key: object = None

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, *_: object) -> None:
        self._dismiss()
        shutil.rmtree(self._folder, ignore_errors=True)

    def begin(self, imports: Sequence[str], env: Mapping[str, str], *, beside_bytes: int) -> None:
        """Starts one, where there is room for it. ``beside_bytes``: host memory that the trial beside it may take."""
        if not self._wanted or self._child is not None or not imports or host.memory()[1] - beside_bytes < ROOM_BYTES:
            return
        self._number += 1
        self._place.mkdir(parents=True)
        self._child = process.start(
            process.python_module("launcher.worker", str(self._place / ORDERS), "--meanwhile", ",".join(imports)),
            env=env,
            stdout=self._place / "stdout.log",
            stderr=self._place / "stderr.log",
        )
        self._key = (tuple(imports), dict(env))

    def take(self, orders: Orders, place: Path, imports: Sequence[str], env: Mapping[str, str]) -> process.Child | None:
        """The one that waits, at its orders now and its words in ``place``; None where there is none for just this."""
        child = self._child
        if child is None or child.process.poll() is not None or self._key != (tuple(imports), dict(env)):
            self._dismiss()
            return None
        for name in ("stdout.log", "stderr.log"):
            os.replace(self._place / name, place / name)
        child.begins()
        orders.write(self._place / ORDERS)
        self._child = None
        return child

    @property
    def _place(self) -> Path:
        return self._folder / str(self._number)

    def _dismiss(self) -> None:
        if self._child is not None:
            self._child.end(grace_s=0.0)
        self._child = None
