"""Runs one trial in this process by ORDERS.json, and leaves ``report.json`` in the trial's folder.

    python -m autofit_launcher.inside ORDERS.json

Exit status 0: the trial went through; 1: it failed, and the report says how.
The launcher starts one such process per trial, and kills it with everything it started. Should the launcher die first, the kernel kills it.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import traceback
from pathlib import Path

from autofit_launcher.common.orders import Orders
from autofit_launcher.inside import budget
from autofit_launcher.inside.lifeline import die_with_parent
from autofit_launcher.inside.recorder import Recorder


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
    if len(argv) != 1:
        print("usage: python -m autofit_launcher.inside ORDERS.json", file=sys.stderr)
        return 2
    return run(Orders.read(Path(argv[0])))


if __name__ == "__main__":
    faulthandler.enable()
    die_with_parent()
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # no atexit handler and no thread of a trainer may hold a finished trial
