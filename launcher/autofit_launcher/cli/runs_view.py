"""Writes what is known of runs, read from their folders: a table of many, one as it goes on, and how it ended. Decides nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from autofit_launcher.cli.say import say, table
from autofit_launcher.common.sizes import format_duration, format_number, format_size
from autofit_launcher.history.kept_fits import KeptFit, KnownFits, RunFailure, day
from autofit_launcher.history.runs import QUEUED, Run
from autofit_launcher.ladder import rungs
from autofit_launcher.page import page

_COLOURS = {
    "running": "cyan", "trying": "cyan", "done": "green", "fitted": "green", "interrupted": "yellow", "elsewhere": "yellow",
    "unknown": "yellow", "card_taken": "yellow", "submitted": "yellow", "pending": "yellow", "starting": "cyan",
}  # fmt: skip
SILENT_S = 60.0
"""A run at work that has written nothing for longer is told to be silent."""


def runs(console: Console, runs: Sequence[Run]) -> None:
    """Shows one line for each run."""
    rows: list[dict[str, str | Text]] = []
    for run in runs:
        beside = run.owner.host if run.state == "elsewhere" else _job(run) if run.state in QUEUED else ""
        state = Text(page.spaced(run.state) + (f" ({beside})" if beside else ""), style=_colour(run))
        rows.append({"run": Text(run.name, style="bold"), "state": state, "rung": _rung(run), "progress": _progress(run)})
        age = format_duration(time.time() - run.began) if run.began else "-"
        rows[-1] |= {"peak": page.size(run.peak_bytes), "budget": page.size(run.budget_bytes), "age": age}
    table(console, rows, left=("run", "state", "rung", "progress"))


def peaks(console: Console, found: Sequence[Run]) -> list[dict[str, Any]]:
    """Shows each full run's peak beside its trial's, and returns them: only a run that was seen has any."""
    seen = [run for run in found if run.memory.run_peak_bytes and run.memory.trial_peak_bytes]
    runs(console, seen)
    of_memory = {"trial_peak_bytes", "run_peak_bytes", "cap_bytes", "budget_bytes"}
    pairs = []
    for run in seen:
        of = {"run": run.name, "recipe": run.recipe, "state": run.state, "rung_index": run.rung_index, "device": run.device}
        pairs.append(of | run.memory.model_dump(include=of_memory))
        ratio = run.memory.run_peak_bytes / run.memory.trial_peak_bytes
        say(console, f"{run.name}: {ratio:.1%} of its trial's {page.size(run.memory.trial_peak_bytes)}, cap {page.size(run.cap_bytes)}")
    return pairs


def fits(console: Console, kept: Sequence[tuple[KnownFits, KeptFit]], failures: Sequence[tuple[KnownFits, RunFailure]]) -> None:
    """Shows fits that stand for the trials of a launch, and those that a run has shown to be wrong."""
    rows = [
        {"fit": known.id, "of": known.training, "rung": f"{fit.rung_index}: {rungs.words(fit.chosen.rung)}",
         "device": known.depends_on.get("device", ""), "peak": format_size(fit.chosen.peak_bytes), "holds at caps": fit.caps,
         "made": day(fit.made)}
        for known, fit in kept
    ]  # fmt: skip
    table(console, rows, left=("fit", "of", "rung", "device"))
    for known, wrong in failures:
        words = f"disproved on {day(wrong.at)}: {known.training}, rung {wrong.rung_index}, in {wrong.run_dir}: {wrong.why}"
        say(console, words, style="yellow")


def ended(console: Console, run: Run) -> None:
    """Shows in a few lines how the run ended."""
    progress = f"  {_progress(run)}" if run.lines or run.state == "done" else ""
    say(console, Text.assemble(f"{run.name}: ", (page.spaced(run.state), _colour(run)), progress))
    if run.peak_bytes and run.budget_bytes:
        beside = f", its trial {format_size(run.trial_peak_bytes)}" if run.memory.run_peak_bytes and run.trial_peak_bytes else ""
        say(console, f"  peak {format_size(run.peak_bytes)} of {format_size(run.budget_bytes)}{beside}")
    say(console, f"  {run.folder.path}")


def line(run: Run) -> str:
    """A run at work in one line: everything that is known of it."""
    return "  ".join([page.spaced(run.state), *(said for said in _told(run) if said)])


def _told(run: Run) -> Iterator[str]:
    told, left = run.last, run.seconds_left
    yield f"SLURM {_job(run)}" if run.submission is not None else ""
    yield f"waiting: the card is taken: {run.waits_for}" if run.waits_for else ""
    if run.state == "running":
        yield f"rung {_rung(run)}" + (f"  (attempt {run.attempt})" if run.attempt > 1 else "")
        yield _progress(run)
        yield f"loss {told['loss']}" if "loss" in told else ""
        if told.get("used_bytes") or run.peak_bytes:
            yield f"memory {page.size(told.get('used_bytes'))} of {page.size(run.budget_bytes)} (peak {page.size(run.peak_bytes)})"
        yield f"about {format_duration(left)} left" if left is not None else ""
        yield run.remark
    elif run.state not in QUEUED:
        yield f"trial {run.tried + 1}: rung {_rung(run)}  {run.phase}" if run.phase else "between two trials" if run.tried else ""
    silent = time.time() - run.last_sign if run.last_sign else 0.0
    yield f"nothing written for {format_duration(silent)}" if silent > SILENT_S else ""


def _job(run: Run) -> str:
    """The SLURM job that it was handed to, and why that waits."""
    waits = f": {run.seen.reason}" if run.seen is not None and run.seen.waits and run.seen.reason else ""
    return f"job {run.submission.job}{waits}" if run.submission is not None else ""


def _colour(run: Run) -> str:
    return _COLOURS.get(run.state, "red")


def _rung(run: Run) -> str:
    return f"{run.rung_index}: {rungs.words(run.rung)}" if run.rung_index is not None else "-"


def _progress(run: Run) -> str:
    told = run.last
    parts = [
        f"{one} {format_number(told[one])}" + (f"/{format_number(told[of])}" if told.get(of) else "")
        for one, of in (("epoch", "epochs"), ("step", "steps"))
        if told.get(one) is not None
    ]
    done = 1.0 if run.state == "done" else told.get("done")
    return "  ".join([*parts, *([f"{done:.0%}"] if done is not None else [])]) or "-"
