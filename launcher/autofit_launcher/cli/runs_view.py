"""Draws runs, read from their folders: a table of many, one as it goes on, and how it ended. Decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from autofit_launcher.cli.say import say, shown, table
from autofit_launcher.common.sizes import format_duration, format_number, format_size
from autofit_launcher.history.kept_fits import KeptFit, KnownFits, RunFailure, day
from autofit_launcher.history.runs import QUEUED, Run
from autofit_launcher.ladder import rungs
from autofit_launcher.page import page

_COLOURS = {
    "running": "cyan", "trying": "cyan", "done": "green", "fitted": "green", "interrupted": "yellow", "elsewhere": "yellow",
    "unknown": "yellow", "card_taken": "yellow", "submitted": "yellow", "pending": "yellow", "starting": "cyan",
}  # fmt: skip
_OTHERWISE = "red"
PLAIN_S = 10.0
"""Seconds between two lines of a run without a terminal, where nothing of note happens."""
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


def peaks(console: Console, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Shows each full run's peak beside its trial's, and returns them: only a run that was seen has any."""
    pairs, rows = list[dict[str, Any]](), list[dict[str, str | Text]]()
    for run in runs:
        told = run.memory.model_dump(include={"trial_peak_bytes", "run_peak_bytes", "cap_bytes", "budget_bytes"})
        if not (told["run_peak_bytes"] and told["trial_peak_bytes"]):
            continue
        of = {"run": run.name, "recipe": run.recipe, "state": run.state, "rung_index": run.rung_index, "device": run.device}
        pairs.append(of | told)
        ratio = told["run_peak_bytes"] / told["trial_peak_bytes"]
        trial, peak, cap, budget = (page.size(told[f"{name}_bytes"]) for name in ("trial_peak", "run_peak", "cap", "budget"))
        rows.append({"run": Text(run.name, style="bold"), "state": run.state, "rung": str(run.rung_index), "trial peak": trial})
        rows[-1] |= {"run peak": peak, "run / trial": Text(f"{ratio:.1%}", style="yellow" if ratio > 1 else "")}
        rows[-1] |= {"cap": cap, "budget": budget}
    table(console, rows, left=("run", "state"))
    if not rows:
        say(console, "no full run here has ended with its memory seen")
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


@contextmanager
def live(console: Console) -> Iterator[Callable[[Run], None]]:
    """Yields a function that draws a run as it is now, while this is open: on a terminal in place, elsewhere a line where there is news."""
    if not console.is_terminal:
        yield _news(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        try:
            yield lambda run: live.update(shown("\n".join(f"{label:<12} {words}" for label, words in told(run))), refresh=True)
        finally:  # rich draws the last one once more and whole: of one that is higher than the screen the top would stay
            live.update(Text(), refresh=True)


def _news(console: Console) -> Callable[[Run], None]:
    """Says a line where something has happened or some time has gone."""
    before: tuple[float, object] = (0.0, None)

    def show(run: Run) -> None:
        nonlocal before
        about = (run.state, run.rung_index, run.tried, run.phase, run.attempt, run.waits_for, run.remark, run.seen)
        about_now, now = (*about, int(run.last.get("epoch") or 0)), time.monotonic()
        if about_now != before[1] or now - before[0] >= PLAIN_S:
            before = now, about_now
            say(console, line(run))

    return show


def line(run: Run) -> str:
    """A run at work in one line."""
    return "  ".join([page.spaced(run.state), *(f"{label} {words}" for label, words in told(run)[1:])])


def told(run: Run) -> list[tuple[str, str]]:
    """Returns (label, words) of everything that is known of a run at work; the first says which run it is."""
    by = f", process {run.owner.pid} on {run.owner.host}" if run.owner.pid else ""
    rows = [(run.name, f"{page.spaced(run.state)}{by}"), *((label, words) for label, words in _all_told(run) if words and words != "-")]
    return [(label, " ".join(words.split("\n"))) for label, words in rows]


def _all_told(run: Run) -> Iterator[tuple[str, str]]:
    told = run.last
    yield "SLURM", _job(run)
    if run.state in QUEUED:
        return
    yield "device", run.device
    yield "waiting", f"the card is taken: {run.waits_for}" if run.waits_for else ""
    if run.state != "running":
        yield "trial", f"{run.tried + 1}: rung {_rung(run)}  {run.phase}" if run.phase else "between two trials" if run.tried else ""
        return
    yield "rung", _rung(run) + (f"  (attempt {run.attempt})" if run.attempt > 1 else "")
    yield "progress", _progress(run)
    yield "phase", page.phase(told.get("phase", ""))
    yield "loss", str(told.get("loss", ""))
    if told.get("used_bytes") or run.peak_bytes:
        budget = f" of {format_size(run.budget_bytes)}" if run.budget_bytes else ""
        yield "memory", f"{format_size(told.get('used_bytes', 0))}{budget} (peak {format_size(run.peak_bytes)})"
    yield "host memory", format_size(told["host_bytes"]) if told.get("host_bytes") else ""
    left = run.seconds_left
    so_far = f"{format_duration(time.time() - run.running_since)} so far" if run.running_since is not None else ""
    yield "time", ", ".join(filter(None, [so_far, f"about {format_duration(left)} left" if left is not None else ""]))
    yield "note", run.remark
    silent = time.time() - run.last_sign if run.last_sign else 0.0
    yield "note", f"nothing written for {format_duration(silent)}" if silent > SILENT_S else ""


def _job(run: Run) -> str:
    """The SLURM job that it was handed to, and why that waits."""
    if run.submission is None:
        return ""
    waits = f": {run.seen.reason}" if run.seen is not None and run.seen.waits and run.seen.reason else ""
    return f"job {run.submission.job}{waits}"


def _colour(run: Run) -> str:
    return _COLOURS.get(run.state, _OTHERWISE)


def _rung(run: Run) -> str:
    return f"{run.rung_index}: {rungs.words(run.rung)}" if run.rung_index is not None else "-"


def _progress(run: Run) -> str:
    told = run.last
    parts = []
    if told.get("epoch") is not None:
        parts.append(f"epoch {format_number(told['epoch'])}" + (f"/{format_number(told['epochs'])}" if told.get("epochs") else ""))
    if told.get("step") is not None:
        parts.append(f"step {told['step']}" + (f"/{told['steps']}" if told.get("steps") else ""))
    done = 1.0 if run.state == "done" else told.get("done")
    if done is not None:
        parts.append(f"{done:.0%}")
    return "  ".join(parts) or "-"
