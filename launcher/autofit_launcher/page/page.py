"""Makes the page of runs from their facts, by the template beside it, and writes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autofit_launcher import __version__
from autofit_launcher.history import series
from autofit_launcher.history.records import Record
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.runs import Run, run_in
from autofit_launcher.ladder import rungs
from autofit_launcher.page import facts
from autofit_launcher.shared import files
from autofit_launcher.shared.sizes import format_duration
from autofit_launcher.shared.words import masked

log = logging.getLogger(__name__)


def write(folders: Sequence[Path], path: Path) -> Path:
    """Writes the page of these runs, whole or not at all. Raises OSError."""
    files.replace(path, render([run_in(folder) for folder in folders]))
    return path


def at_the_end(folder: RunFolder) -> Path | None:
    """The page of a launch that is over, in its folder. Whatever goes wrong with it, the launch is what it is."""
    try:
        return write([folder.path], folder.report)
    except Exception as error:  # a picture must never fail a run
        log.warning("no report was written: %s: %s", type(error).__name__, error)
        return None


def render(runs: Sequence[Run]) -> str:
    """The page, as text."""
    import jinja2

    place = Path(__file__).parent / "templates"
    loader = jinja2.FileSystemLoader(place)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    told = (facts.phase, facts.sentence, facts.size, facts.spaced, rungs.value, facts.wheel, rungs.words, format_duration)
    environment.finalize = lambda told: masked(told) if type(told) is str else told  # what is markup already was made here
    environment.filters.update({function.__name__: function for function in told})
    environment.globals.update(settings=facts.settings)
    style = (place / "report.css").read_text(encoding="utf-8")
    page = environment.get_template("report.html")
    return page.render(runs=[_told(run) for run in runs], style=style, version=__version__)


def _told(run: Run) -> Mapping[str, Any]:
    """Everything that the template says of a run."""
    record = run.record or Record()
    scale = facts.full_scale(run, record)
    return {
        "run": run,
        "record": record,
        "scale": scale,
        "steps": facts.ladder(run, record),
        "same_training": facts.same_training(record),
        "peaks": facts.peaks(run, record),
        "memory": facts.memory(series.read(run.folder.series), scale),
        "failures": list(facts.failures(run, record)),
        "versions": _versions(record),
        "command": next((one.command for one in record.attempts if one.checkpoint is None and one.command), record.command) or "",
    }


def _versions(record: Record) -> str:
    """Lists versions as a person reports them, those of Python and the packages first."""
    names = {"python": "Python", "cuda": "CUDA"}
    told = sorted(record.environment.items(), key=lambda one: one[0] in ("cuda", "driver"))
    return ", ".join(f"{names.get(name, name)} {version}" for name, version in told)
