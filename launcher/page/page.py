"""Makes the page of runs from their facts, by the template beside it, and writes it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher import __version__
from launcher.history import series
from launcher.history.records import Record
from launcher.history.run_folder import RunFolder
from launcher.history.runs import Run, run_in
from launcher.page import facts, plot
from launcher.page.plot import Plot, Points
from launcher.shared import files
from launcher.shared.sizes import format_size

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
    told = (facts.phase, facts.sentence, facts.size, facts.spaced, facts.value, facts.wheel, facts.words, plot.duration)
    environment.filters.update({function.__name__: function for function in told})
    environment.globals.update(settings=facts.settings)
    style = (place / "report.css").read_text(encoding="utf-8")
    page = environment.get_template("report.html")
    return page.render(runs=[_told(run) for run in runs], style=style, version=__version__)


def _told(run: Run) -> Mapping[str, Any]:
    """Everything that the template says of a run."""
    record = run.record or Record()
    steps = facts.ladder(run, record)
    lines = series.read(run.folder.series)
    since = float(lines[0]["at"]) if lines else run.began or 0.0
    return {
        "run": run,
        "record": record,
        "scale": facts.full_scale(run, record),
        "steps": steps,
        "same_training": facts.same_training(record),
        "peaks": facts.peaks(run, record),
        "plots": list(_plots(run, record, lines, since)),
        "validations": _validations(lines, since),
        "failures": list(facts.failures(run, record)),
        "versions": _versions(record),
        "command": next((one.command for one in record.attempts if one.checkpoint is None and one.command), record.command) or "",
    }


def _validations(lines: Sequence[Mapping[str, Any]], since: float) -> list[list[float]]:
    """[from, to] of each stretch of validation, in seconds."""
    found: list[list[float]] = []
    before = None
    for line in lines:
        at, phase = float(line["at"]) - since, line.get("phase")
        if phase == before == "validate":
            found[-1][1] = at
        elif phase == "validate":
            found.append([at, at])
        before = phase
    return found


def _plots(run: Run, record: Record, lines: Sequence[Mapping[str, Any]], since: float) -> Iterator[Plot]:
    def over_time(key: str) -> Points:
        return [(float(line["at"]) - since, float(line[key])) for line in lines if isinstance(line.get(key), (int, float))]

    span = float(lines[-1]["at"]) - since if lines else 0.0
    trial = record.memory.trial_peak_bytes if record.memory is not None else 0
    levels = {"cap": run.cap_bytes, "budget": run.budget_bytes, **({"its trial": trial} if trial else {})}
    used = {"used": over_time("used_bytes"), "highest in between": over_time("peak_bytes")}
    drawn = (
        plot.plot("Memory", used, span=span, told=lambda value: format_size(int(value)) if value else "0", levels=levels),
        plot.plot("Samples a second", {"samples/s": over_time("samples_per_second")}, span=span, told="{:.3g}".format),
        plot.plot("Loss", {"loss": over_time("loss")}, span=span, told="{:.4g}".format),
    )
    return filter(None, drawn)


def _versions(record: Record) -> str:
    """Python and the trainer's packages first, as a person reports them."""
    names = {"python": "Python", "cuda": "CUDA"}
    told = sorted(record.environment.items(), key=lambda one: one[0] in ("cuda", "driver"))
    return ", ".join(f"{names.get(name, name)} {version}" for name, version in told)
