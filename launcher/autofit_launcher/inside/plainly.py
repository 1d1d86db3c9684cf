"""A trial that crashed, and the same command run plainly -> whose fault the crash is.

Plainly: nothing watched, cut, sped up or accumulated from outside; the budget holds it, and what it writes is redirected as ever. It gets a
little longer than the trial took to crash.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autofit_launcher.common.memory_failures import memory_failure
from autofit_launcher.common.orders import PLAIN, Orders, ProbeSettings, injected
from autofit_launcher.common.report import OVER_CAP, Failure, TrialReport
from autofit_launcher.inside.caches import CACHES, separate
from autofit_launcher.inside.forks import Forked, forked
from autofit_launcher.inside.lifeline import die_with_parent, kill
from autofit_launcher.inside.quiet import QUIET

NOTHING_FROM_OUTSIDE = {"ACCUMULATE": "1", "UPDATE": "", "CHECKPOINTING": ""}
"""Variables by which ``native/accumulate.py`` holds nothing back, ``native/update.py`` weights nothing, and nothing is checkpointed."""
LONGEST_S = 120.0
OVERLAY = "overlay"
"""Folder in an attempt's, of what it writes."""


def speaks_of_memory(failure: Failure) -> bool:
    """Tells whether a failure is one of memory, and no crash that is to be proven."""
    return OVER_CAP in failure.types or memory_failure(failure.message, types=failure.types) is not None


def proven(report: TrialReport, orders: Orders, env: Mapping[str, str], *, seconds: float, cure: str) -> TrialReport:
    """The report of a crash, after the command was run plainly: the trainer's own crash, or one that our watching made.

    ``seconds``: how long the trial took to crash, with its start. ``cure``: what helps where it is fast-forward that breaks it.
    """
    assert report.failure is not None
    went_on, said = _ran(orders, env, min(2 * seconds + 20.0, LONGEST_S))
    if not went_on:
        return report
    first = (report.failure.message.strip().splitlines() or ["?"])[0][:200]
    hint = f"the script broke under the trial's own hooks ({first}), and {said} without them: the fault is autofit's; please report it"
    if report.facts.get("failed_forwarding"):
        hint = f"fast-forward broke the script ({first}); {cure}"
    return dataclasses.replace(report, failure=None, hint=hint)


def environment(orders: Orders, place: Path) -> dict[str, str]:
    """Makes the command's environment beside the probe: nothing is uploaded or downloaded, caches of libraries are the trial's own."""
    own = {key: str(value) for key, value in orders.payload.get("env", {}).items()}
    base = {**os.environ, **QUIET, "MPLBACKEND": "Agg", **own}
    return {**base, **separate(base, place / CACHES, launch=Path(orders.cache or orders.scratch))}


def started(
    orders: Orders, place: Path, env: Mapping[str, str], *, temporary: str, log: Any = None, **how: Any
) -> subprocess.Popen[bytes] | Forked:
    """Starts the command, with the probe in each process: forked, where the launch has a server for it. ``how``: of ``ProbeSettings``;
    ``log``: None is this process's own output."""
    settings = place / "probe.json"
    ProbeSettings(
        records=str(place / "records"), orders=dataclasses.asdict(orders), overlay=str(place / OVERLAY),
        kept=(temporary, str(place / CACHES)), **how,
    ).write(settings)  # fmt: skip
    env = {**env, "TMPDIR": temporary}
    env |= injected(settings, env)
    streams = (1, 2) if log is None else (log.fileno(), log.fileno())
    if ("same" in how or not how.get("budget_only")) and (child := forked(orders.payload["argv"], env, streams)) is not None:
        return child
    return subprocess.Popen(
        orders.payload["argv"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        preexec_fn=die_with_parent, start_new_session=log is not None,
    )  # fmt: skip


def _ran(orders: Orders, env: Mapping[str, str], longest: float) -> tuple[bool, str]:
    """Runs the command plainly; returns (whether it did well by itself, in words)."""
    place = orders.scratch / PLAIN
    (place / "t").mkdir(parents=True)
    plain = {**env, **{name: value for name, value in NOTHING_FROM_OUTSIDE.items() if name in env}}
    with (place / "log").open("wb") as log:
        child = started(orders, place, plain, temporary=str(place / "t"), log=log, budget_only=True)
        began = time.monotonic()
        try:
            status = child.wait(timeout=longest)
        except subprocess.TimeoutExpired:
            return True, f"was still at it after {time.monotonic() - began:.0f} s"
        finally:
            kill(child.pid)
            child.wait()
    return status == 0, "came to its end"
