"""Runs one trial in this process by ORDERS.json, and leaves ``report.json`` in the trial's folder.

    python -m launcher.worker ORDERS.json [--meanwhile MODULE,MODULE]

With ``--meanwhile`` the orders needn't be there yet: the modules are imported, then the orders are waited for (``launcher.trial.prewarm``).
Exit status 0: the trial went through; 1: it failed, and the report says how.
The launcher starts one such process per trial and kills it with everything it started. Should the launcher die first, the kernel kills it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from launcher.shared.orders import Orders
from launcher.worker import budget
from launcher.worker.lifeline import die_with_parent
from launcher.worker.recorder import Recorder

LOOK_S = 0.02
"""Between two looks for orders."""


def run(orders: Orders) -> int:
    """Runs the trial that ``orders`` names. Whatever ends it is in the report; nothing is raised."""
    recorder = Recorder(orders)
    try:
        orders.scratch.mkdir(parents=True, exist_ok=True)
        importlib.import_module(orders.module).run(orders, recorder)
    except BaseException as error:  # SystemExit of a trainer and KeyboardInterrupt are failures of the trial too
        budget.lift()  # writing needs memory, and there is none left
        recorder.failed(error)
        traceback.print_exception(error)
        return 1
    return 0


def main(argv: list[str]) -> int:
    if len(argv) not in (1, 3) or argv[1:2] not in ([], ["--meanwhile"]):
        print("usage: python -m launcher.worker ORDERS.json [--meanwhile MODULE,MODULE]", file=sys.stderr)
        return 2
    orders = Path(argv[0])
    if len(argv) == 3:
        _wait(orders, imports=argv[2].split(","))
    return run(Orders.read(orders))


def _wait(orders: Path, *, imports: Sequence[str]) -> None:
    """Until the orders are there; the modules are imported meanwhile."""
    for name in imports:
        with contextlib.suppress(Exception):  # the trial imports it again, and says what is wrong with it
            importlib.import_module(name)
    while not orders.exists():
        time.sleep(LOOK_S)


if __name__ == "__main__":
    faulthandler.enable()
    die_with_parent()
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # no atexit handler and no thread of a trainer may hold a finished trial
