"""Makes the page of runs from their records, by the template beside it, and writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autofit_launcher import __version__
from autofit_launcher.common import files
from autofit_launcher.common.sizes import format_duration, format_size
from autofit_launcher.common.words import masked, visible
from autofit_launcher.errors import refusal
from autofit_launcher.history.records import LadderRecord, Record, TrialRecord
from autofit_launcher.history.runs import Run, run_in
from autofit_launcher.ladder import rungs
from autofit_launcher.ladder.same_training import GIVEN_UP

_FURTHER_RUNGS = 3
"""Rungs that are shown below the last that was tried."""


def size(told: int | float | None) -> str:
    return format_size(int(told)) if told else "-"


def settings(rung: Mapping[str, Any], accumulation: int | None) -> dict[str, Any]:
    """A rung's wheels, its accumulation behind the micro-batch."""
    return {"micro_batch": rung.get("micro_batch", "?"), "accumulation": accumulation or 1} | {
        name: value for name, value in rung.items() if name != "micro_batch"
    }


def ladder(record: Record) -> list[dict[str, Any]]:
    """Every rung that is known (of an older run those that were tried), with its last trial and what became of it in one word: chosen,
    fits, failed, ruled-out, untried."""
    trials = {trial.rung_index: trial for trial in record.trials}
    chosen = record.chosen_rung_index if record.chosen_rung_index is not None else record.rung_index
    known: dict[int, TrialRecord | LadderRecord] = {**trials, **{one.rung_index: one for one in record.ladder}}
    last = max([index for index in (*trials, chosen) if index is not None], default=0)
    rows = []
    for index, one in sorted(known.items(), key=lambda pair: pair[0]):
        trial, by = trials.get(index), one.ruled_out_by if isinstance(one, LadderRecord) else None
        state = "chosen" if index == chosen else "untried" if by is None else "ruled-out"
        if trial is not None and (trial.verdict != "fits" or index != chosen):
            state = "fits" if trial.verdict == "fits" else "failed"
        if index <= last + _FURTHER_RUNGS:
            told = {"index": index, "settings": settings(one.rung, one.accumulation), "ruled_out_by": by}
            rows.append({**told, "state": state, "trial": trial, "peak_bytes": trial.peak_bytes if trial is not None else 0})
    return rows


def spaced(name: str) -> str:
    """A name of the record's, for people."""
    return name.replace("_", " ")


def write(folders: Sequence[Path], path: Path) -> Path:
    """Writes the page of these runs, whole or not at all. Raises OSError, and BadInput for a record that somebody has edited."""
    try:
        text = render([run_in(folder) for folder in folders])
    except Exception as error:  # whatever stands there
        found = f"a record holds what can't be shown ({type(error).__name__}: {error})"
        raise refusal(found, "Name another run; its logs are as they were.", where=", ".join(map(str, folders))) from error
    files.replace(path, text)
    return path


def render(runs: Sequence[Run]) -> str:
    """The page, as text."""
    import jinja2

    place = Path(__file__).parent / "templates"
    loader = jinja2.FileSystemLoader(place)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    told = (size, spaced, rungs.value, rungs.words, format_duration)
    environment.finalize = lambda told: masked(told) if type(told) is str else told  # what is markup already was made here
    environment.filters.update({function.__name__: function for function in told})
    environment.globals.update(settings=settings)
    style = (place / "report.css").read_text(encoding="utf-8")
    return visible(environment.get_template("report.html").render(runs=[_told(run) for run in runs], style=style, version=__version__))


def _told(run: Run) -> Mapping[str, Any]:
    """Everything that the template says of a run."""
    record = run.record or Record()
    peaks = [*(one.peak_bytes for one in record.trials), *(one.peak_bytes for one in record.attempts)]
    scale = max([run.budget_bytes, *peaks, 1]) * 21 // 20  # the budget, or what was needed beyond it
    same = record.same_training
    return {
        "run": run,
        "record": record,
        "scale": scale,
        "steps": ladder(record),
        "same_training": "" if same is None else "but for what is given up" if same.gradient.startswith(GIVEN_UP) else same.verdict,
        "versions": ", ".join(f"{name} {version}" for name, version in record.environment.items()),
        "command": next((one.command for one in record.attempts if one.checkpoint is None and one.command), record.command) or "",
    }
