"""Becomes the process off which a launch forks its trials and its twins (``forks``): the command of the orders."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from autofit_launcher.common.orders import PRELOADED, TEMPORARY, Orders, ProbeSettings, injected
from autofit_launcher.inside.caches import CACHES
from autofit_launcher.inside.forks import PATH
from autofit_launcher.inside.plainly import OVERLAY, environment
from autofit_launcher.inside.recorder import Recorder


def run(orders: Orders, recorder: Recorder) -> None:
    """Doesn't return. Raises OSError where the command can't be started."""
    place = Path(orders.folder)
    env = {**environment(orders, place), "TMPDIR": str(place), PATH: os.environ.get(PATH, "")}
    env = {name: value for name, value in env.items() if name not in PRELOADED and (value or name != PATH)}
    settings, kept = place / "probe.json", (str(place / CACHES), os.environ[TEMPORARY])
    ProbeSettings(
        records=str(place), orders=dataclasses.asdict(orders), overlay=str(place / OVERLAY), kept=kept,
        forks=f"{os.environ[TEMPORARY]}/forks.{os.getpid()}",
    ).write(settings)  # fmt: skip
    argv = orders.payload["argv"]
    os.execvpe(argv[0], argv, {**env, **injected(settings, env)})
