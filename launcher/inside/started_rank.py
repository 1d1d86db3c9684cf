"""Makes this process one rank of a trial that torchrun has started: its orders, what it sees of the others, and its wait for them."""

from __future__ import annotations

import functools
import inspect
import os
import time
from datetime import timedelta
from typing import Any

from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.shared.report import BACKEND, WORLD_SIZE, Phase, TrialReport

TIMEOUT_S = 600.0
"""In a trial a rank waits at most so long for another one, which may work out the metrics of a whole validation set meanwhile. Ultralytics'
own 3 hours are for runs. A rank that *fails* is seen by the launcher at once."""
LOOK_S = 0.1


def own(orders: Orders) -> Orders:
    """The orders of this rank."""
    return orders.of_rank(int(os.environ["RANK"])) if orders.ranks else orders


def watch(recorder: Recorder) -> None:
    """Sees how many processes train together and by which backend, and lets none wait for another for long."""
    import torch.distributed as dist

    recorder.observe(**{WORLD_SIZE: 1})
    begin: Any = dist.init_process_group
    names = inspect.signature(begin)

    @functools.wraps(begin)
    def begun(*args: Any, **options: Any) -> Any:
        given = names.bind(*args, **options)
        given.arguments["timeout"] = timedelta(seconds=TIMEOUT_S)
        result = begin(*given.args, **given.kwargs)
        recorder.observe(**{WORLD_SIZE: dist.get_world_size(), BACKEND: str(dist.get_backend())})
        recorder.write()
        return result

    dist.init_process_group = dist.distributed_c10d.init_process_group = begun


def wait_for_others(orders: Orders) -> None:
    """Until each rank has told its end: one that leaves early takes its connections away, and another would fail for that alone."""
    while not all(map(_has_ended, map(TrialReport.read, orders.report_paths))):
        time.sleep(LOOK_S)


def _has_ended(report: TrialReport | None) -> bool:
    return report is not None and (report.phase == Phase.DONE or report.failure is not None or bool(report.hint))
