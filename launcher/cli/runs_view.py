"""Draws runs, read from their folders: a table of many, one as it goes on, and how it ended. Decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from launcher.cli import prose, tables
from launcher.cli.rungs_view import size
from launcher.cli.tables import Column
from launcher.history.kept_fits import KeptFit, RunFailure, day
from launcher.history.runs import QUEUED, Run
from launcher.shared.sizes import format_number, format_size

_COLOURS = {
    "running": "cyan", "trying": "cyan", "done": "green", "fitted": "green", "interrupted": "yellow", "elsewhere": "yellow",
    "unknown": "yellow", "card_taken": "yellow", "submitted": "yellow", "pending": "yellow", "starting": "cyan",
}  # fmt: skip
_OTHERWISE = "red"
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDE = 48
"""Characters of a curve."""
PLAIN_S = 10.0
"""Between two lines of a run without a terminal, where nothing of note happens."""
SILENT_S = 60.0
"""A run at work that has written nothing for longer is told to be silent."""


class Board:
    """Draws on ``console``."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def runs(self, runs: Sequence[Run]) -> None:
        """One line for each."""
        columns = [Column(name, right=False) for name in ("run", "state", "rung", "progress")]
        columns += [Column("peak"), Column("budget", shared=True), Column("age")]
        rows = []
        for run in runs:
            age = prose.duration(time.time() - run.began) if run.began else "-"
            sizes = (size(run.peak_bytes), size(run.budget_bytes))
            rows.append([Text(run.name, style="bold"), _state(run), *map(Text, (_rung(run), _progress(run), *sizes, age))])
        tables.show(self._console, columns, rows)

    def peaks(self, pairs: Sequence[Mapping[str, Any]]) -> None:
        """Each full run's peak beside its trial's."""
        columns = [Column("run", right=False), Column("state", right=False), Column("rung"), Column("trial peak"), Column("run peak")]
        columns += [Column("run / trial"), Column("cap", shared=True), Column("budget", shared=True)]
        rows = []
        for pair in pairs:
            ratio = pair["run_peak_bytes"] / pair["trial_peak_bytes"]
            trial, run, cap, budget = (Text(size(pair[key])) for key in ("trial_peak_bytes", "run_peak_bytes", "cap_bytes", "budget_bytes"))
            above = Text(f"{ratio:.1%}", style="yellow" if ratio > 1 else "")
            rows.append(
                [Text(pair["run"], style="bold"), *map(Text, (pair["state"], str(pair["rung_index"]))), trial, run, above, cap, budget]
            )
        tables.show(self._console, columns, rows)

    def fits(self, kept: Sequence[KeptFit], failures: Sequence[RunFailure], uses: Mapping[str, int]) -> None:
        """Fits that stand for the trials of a launch, and those that a run has shown to be wrong."""
        columns = [Column("fit"), Column("of", right=False), Column("rung", right=False), Column("device", right=False, shared=True)]
        columns += [Column(name) for name in ("peak", "holds at caps", "made", "used")]
        rows = []
        for one in kept:
            values = ", ".join(f"{name} {value}" for name, value in one.rung.items() if value not in (None, False))
            cells = (str(one.id), one.training, f"{one.rung_index}: {values}", one.device, format_size(one.peak_bytes), one.caps)
            rows.append([Text(cell) for cell in (*cells, day(one.made), str(uses.get(one.digest, 0)))])
        if rows:
            tables.show(self._console, columns, rows)
        for wrong in failures:
            words = f"disproved on {day(wrong.at)}: {wrong.training}, rung {wrong.rung_index}, in {wrong.run_dir}: {wrong.why}"
            self.say(words, style="yellow")

    @contextmanager
    def live(self) -> Iterator[Callable[[Run], None]]:
        """While open, what it yields draws one run as it is now: on a terminal in place, elsewhere a line where there is news."""
        if not self._console.is_terminal:
            plain = _Plain(self._console)
            yield plain.show
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            try:
                yield lambda run: live.update(_panel(run), refresh=True)
            finally:  # rich draws the last one once more and whole: of a box that is higher than the screen the top would stay
                live.update(Text(), refresh=True)

    def ended(self, run: Run) -> None:
        """How it ended, in a few lines."""
        line = Text.assemble(
            f"{run.name}: ", (_words(run.state), _colour(run)), f"  {_progress(run)}" if run.lines or run.state == "done" else ""
        )
        prose.say(self._console, line, hang=2)
        if run.peak_bytes and run.budget_bytes:
            beside = f", its trial {format_size(run.trial_peak_bytes)}" if run.memory.run_peak_bytes and run.trial_peak_bytes else ""
            self.say(f"  peak {format_size(run.peak_bytes)} of {format_size(run.budget_bytes)}{beside}")
        self.say(f"  {run.folder.path}")

    def say(self, words: str, *, style: str = "") -> None:
        prose.say(self._console, words, style=style, hang=len(words) - len(words.lstrip()))


class _Plain:
    """Lines, where something has happened or some time has gone."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._at, self._about = 0.0, ""

    def show(self, run: Run) -> None:
        epoch = run.last.get("epoch") if _whole_epochs(run) else ""
        about = f"{run.state} {run.rung_index} {run.tried} {run.phase} {run.attempt} {run.waits_for} {run.remark} {epoch} {run.seen}"
        now = time.monotonic()
        if about == self._about and now - self._at < PLAIN_S:
            return
        self._at, self._about = now, about
        prose.say(self._console, line(run), hang=2)


def _whole_epochs(run: Run) -> bool:
    return float(run.last.get("epoch", 0.5)).is_integer()


def line(run: Run) -> str:
    """A run at work in one line."""
    if run.waits_for:
        return f"{_words(run.state)}  waiting, the card is taken: {run.waits_for}"
    if run.state in QUEUED:
        return f"{_words(run.state)}  {_job(run)}"
    if run.state != "running":
        return "  ".join(part for part in (_words(run.state), _trying(run)) if part)
    told = run.last
    parts = [_words(run.state), f"rung {run.rung_index}", _progress(run)]
    parts += [f"loss {told['loss']}"] if "loss" in told else []
    parts += [_memory_words(run), _speed(told), _left(run), run.remark, _silence(run)]
    return "  ".join(part for part in parts if part and part != "-")


# ----------------------------------------------------------------------------------------------------------------------
# One run, live


def _panel(run: Run) -> RenderableType:
    """All that is known of a run at work."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    for name, what in _rows(run):
        rows.add_row(name, what)
    title = Text.assemble(run.name, "  ", (_words(run.state), _colour(run)))
    return Panel(rows, box=box.ROUNDED, title=title, title_align="left", expand=False, subtitle=_owner(run), subtitle_align="right")


def _rows(run: Run) -> Iterator[tuple[str, RenderableType]]:
    told = run.last
    if run.submission is not None:
        yield "SLURM", Text(_job(run))
    if run.state in QUEUED:
        return
    yield "device", Text(run.device or "-")
    if run.waits_for:
        yield "waiting", Text(f"the card is taken: {run.waits_for}", style="yellow")
    if run.state != "running":
        yield "trial", Text(_trying(run) or "-")
        return
    yield "rung", Text(_rung(run) + (f"  (attempt {run.attempt})" if run.attempt > 1 else ""))
    yield "progress", _bar(told.get("done"), Text(_progress(run)))
    if told.get("phase"):
        yield "phase", Text({"train": "training", "validate": "validation"}.get(told["phase"], told["phase"]))
    if "loss" in told:
        yield "loss", Text.assemble(f"{told['loss']}  ", (_curve(run, "loss"), "dim"))
    if told.get("used_bytes"):
        yield "memory", _bar(told["used_bytes"] / (run.budget_bytes or told["used_bytes"]), Text(_memory_words(run)), colour="magenta")
    if told.get("host_bytes"):
        yield "host memory", Text(format_size(told["host_bytes"]))
    if "busy" in told:
        yield "card busy", Text(f"{told['busy']:.0%}")
    yield "speed", Text(_speed(told) or "-")
    if run.running_since is not None:
        yield "time", Text(", ".join(filter(None, [f"{prose.duration(time.time() - run.running_since)} so far", _left(run)])))
    if run.remark:
        yield "note", Text(run.remark, style="yellow")
    if silence := _silence(run):
        yield "", Text(silence, style="yellow")


def _bar(part: float | None, words: Text, *, colour: str = "cyan") -> RenderableType:
    if part is None:
        return words
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total=1.0, completed=min(1.0, part), width=24, complete_style=colour, finished_style=colour), words)
    return Group(row)


def _owner(run: Run) -> Text | None:
    owner = run.ownership.owner
    return Text(f"process {owner.pid} on {owner.host}", style="dim") if owner is not None else None


def _job(run: Run) -> str:
    """The SLURM job that it was handed to, and why that waits."""
    if run.submission is None:
        return ""
    waits = f": {run.seen.reason}" if run.seen is not None and run.seen.waits and run.seen.reason else ""
    return f"job {run.submission.job}{waits}"


def _trying(run: Run) -> str:
    """The trial under way."""
    if not run.phase:
        return "between two trials" if run.tried else ""
    return f"{run.tried + 1}: rung {_rung(run)}  {run.phase}"


def _curve(run: Run, key: str) -> str:
    """How a number went over the run, in a few characters."""
    numbers = [line[key] for line in run.lines if isinstance(line.get(key), (int, float))]
    if len(numbers) < 2:
        return ""
    wide = min(_WIDE, len(numbers))
    points = [numbers[len(numbers) * at // wide] for at in range(wide - 1)] + [numbers[-1]]
    low, high = min(points), max(points)
    return "".join(_BLOCKS[round((point - low) / ((high - low) or 1) * (len(_BLOCKS) - 1))] for point in points)


# ----------------------------------------------------------------------------------------------------------------------
# Words


def _colour(run: Run) -> str:
    return _COLOURS.get(run.state, _OTHERWISE)


def _words(state: str) -> str:
    return state.replace("_", " ")


def _state(run: Run) -> Text:
    elsewhere = f" ({run.ownership.owner.host})" if run.state == "elsewhere" and run.ownership.owner is not None else ""
    job = f" ({_job(run)})" if run.state in QUEUED else ""
    return Text(_words(run.state) + elsewhere + job, style=_colour(run))


def _rung(run: Run) -> str:
    if run.rung_index is None:
        return "-"
    values = {name: value for name, value in run.rung.items() if value not in (None, False) and (name, value) != ("accumulation", 1)}
    return f"{run.rung_index}: " + ", ".join(f"{name} {'on' if value is True else value}" for name, value in values.items())


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


def _memory_words(run: Run) -> str:
    told = run.last
    if not told.get("used_bytes") and not run.peak_bytes:
        return ""
    budget = f" of {format_size(run.budget_bytes)}" if run.budget_bytes else ""
    return f"{format_size(told.get('used_bytes', 0))}{budget} (peak {format_size(run.peak_bytes)})"


def _speed(told: Mapping[str, Any]) -> str:
    if told.get("samples_per_second"):
        return f"{format_number(told['samples_per_second'], digits=3)} samples/s"
    return f"{format_number(told['steps_per_second'], digits=3)} steps/s" if told.get("steps_per_second") else ""


def _left(run: Run) -> str:
    left = run.seconds_left
    return f"about {prose.duration(left)} left" if left is not None else ""


def _silence(run: Run) -> str:
    """A run whose last sign is long ago: its process hangs, or its machine is gone."""
    silent = time.time() - run.last_sign if run.last_sign else 0.0
    return f"nothing written for {prose.duration(silent)}" if silent > SILENT_S else ""
