"""A tried command, started with the probe in each of its processes; what its failure is."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.inside.caches import CACHES
from launcher.inside.lifeline import die_with_parent
from launcher.shared.memory_failures import memory_failure
from launcher.shared.orders import Orders
from launcher.shared.probe import ProbeSettings, injected
from launcher.shared.report import NOT_EXACT, OVER_CAP, Failure

OVERLAY = "overlay"
"""Folder in an attempt's, of what it writes."""


def started(orders: Orders, place: Path, env: Mapping[str, str], *, temporary: str, log: Any = None, **how: Any) -> subprocess.Popen[bytes]:
    """The command under way. ``how``: of ``ProbeSettings``; ``log``: None is this process's own output."""
    settings = place / "probe.json"
    ProbeSettings(
        records=str(place / "records"), orders=dataclasses.asdict(orders), overlay=str(place / OVERLAY),
        kept=(temporary, str(place / CACHES)), **how,
    ).write(settings)  # fmt: skip
    env = {**env, "TMPDIR": temporary}
    return subprocess.Popen(
        orders.payload["argv"], env={**env, **injected(settings, env)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        preexec_fn=die_with_parent, start_new_session=log is not None,
    )  # fmt: skip


def speaks_of_memory(failure: Failure) -> bool:
    """As against a crash."""
    return OVER_CAP in failure.types or memory_failure(failure.message, types=failure.types) is not None


def refuses(failure: Failure) -> bool:
    """Whether it is no crash, but our own word that the trial can't be what was asked."""
    return NOT_EXACT in failure.types
