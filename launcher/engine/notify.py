"""Runs the person's own command (``notify.command``) when a run has failed and is taken up again, and when a launch is over."""

from __future__ import annotations

import logging

from launcher.engine.events import Finished
from launcher.history.events import Event, Listener
from launcher.machine import process
from launcher.run.events import Recovering
from launcher.trial.job import Job

LIMIT_S = 30.0
"""A command that takes longer is ended: nothing waits for it."""
log = logging.getLogger(__name__)


def listener(job: Job) -> Listener:
    """Hears a launch's events; whatever its command does, the launch is what it is."""

    def hear(event: Event) -> None:
        said = _said(event)
        if said is None or not job.recipe.notify.command:
            return
        status, words = said
        name = job.recipe.name
        told = {"STATUS": status, "SAYS": f"{name}: {words}", "RUN_DIR": str(job.folder.path), "RECIPE": name, "EVENT": event.name}
        env = {f"AUTOFIT_{key}": value for key, value in told.items()}
        ended, output = process.output_of(("/bin/sh", "-c", job.recipe.notify.command), env=env, timeout_s=LIMIT_S)
        if ended:
            log.warning("notify.command ended with %s: %s", ended, output.strip()[-300:])

    return hear


def _said(event: Event) -> tuple[str, str] | None:
    """(status, what happened) of an event that is told; None for another."""
    if isinstance(event, Recovering):
        return "recovering", event.move.why
    if isinstance(event, Finished):
        status = event.fit.status.value
        return status, status.replace("_", " ")
    return None
