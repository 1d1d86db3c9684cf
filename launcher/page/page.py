"""Makes the page of runs from their facts, by the template beside it, and writes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher import __version__
from launcher.history import series
from launcher.history.records import Record
from launcher.history.run_folder import RunFolder
from launcher.history.runs import Run, run_in
from launcher.page import facts, plot
from launcher.page.plot import Plot, Unit
from launcher.shared import files
from launcher.shared.sizes import GIB, MIB, format_size

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
    environment.globals.update(
        style=(place / "report.css").read_text(encoding="utf-8"), script=(place / "report.js").read_text(encoding="utf-8")
    )
    environment.filters.update(size=facts.size, row=_row, bar_row=_bar_row)
    told = [_told(run) for run in runs]
    return environment.get_template("report.html").render(runs=told, compared=_compared(told), version=__version__)


def _compared(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Rows of a table: what is told of each run, side by side."""
    rows = {
        "": [one["run"].name for one in runs],
        "state": [one["run"].state.replace("_", " ") for one in runs],
        "rung of the full run": [one["words"] for one in runs],
        "trials": [str(len(one["record"].trials)) for one in runs],
        "cap of a trial": [one["cap_told"] for one in runs],
        "highest point of the run": [facts.size(one["run"].memory.run_peak_bytes) for one in runs],
        "device": [one["run"].device for one in runs],
        "ran with": [_versions(one["record"]) for one in runs],
    }
    return [(name, *values) for name, values in rows.items()]


def _row(step: facts.LadderRow) -> tuple[str, ...]:
    return (str(step.index), step.words, step.label, step.peak, step.why, step.gives_up)


def _bar_row(bar: facts.Bar) -> tuple[str, ...]:
    return (bar.name, bar.told, "; ".join(f"{part.name}: {facts.size(part.bytes)}" for part in bar.parts))


def _told(run: Run) -> Mapping[str, Any]:
    """Everything that the template says of a run."""
    record = run.record or Record()
    scale = facts.full_scale(run, record)
    steps = facts.ladder(run, record, scale)
    lines = series.read(run.folder.series)
    since = float(lines[0]["at"]) if lines else run.began or 0.0
    moments = facts.moments(run, since)
    return {
        "run": run,
        "record": record,
        "steps": steps,
        "headline": facts.headline(run, record, steps),
        "why": [sentence for sentence in facts.why(run, record, steps) if sentence],
        "peaks": facts.bars(run, record, scale),
        "cap": round(100 * run.cap_bytes / scale, 2),
        "budget": round(100 * run.budget_bytes / scale, 2),
        "cap_told": facts.size(run.cap_bytes),
        "budget_told": facts.size(run.budget_bytes),
        "plots": [(one, plot.json_of(one)) for one in _plots(run, record, lines, since)],
        "moments": [(one, plot.duration(one.at), _part(one.at, lines, since)) for one in moments],
        "validations": _validations(lines, since),
        "failures": facts.failures(run, record),
        "about": _about(run, record),
        "command": next((one.command for one in record.attempts if one.checkpoint is None and one.command), record.command) or "",
        "given_up": facts.given_up(record),
        "words": facts.words(record.rung or {}, record.accumulation) if record.rung else "-",
    }


def _span(lines: Sequence[Mapping[str, Any]], since: float) -> float:
    return float(lines[-1]["at"]) - since if lines else 0.0


def _part(at: float, lines: Sequence[Mapping[str, Any]], since: float) -> float:
    """A time in percent of the time axis."""
    span = _span(lines, since)
    return round(min(100.0, 100 * at / span), 2) if span else 0.0


def _validations(lines: Sequence[Mapping[str, Any]], since: float) -> list[tuple[float, float]]:
    """(from, width) of each stretch of validation, in percent of the time axis."""
    found: list[list[float]] = []
    before = None
    for line in lines:
        at = _part(float(line["at"]) - since, lines, since)
        if line.get("phase") == "validate":
            if before != "validate":
                found.append([at, at])
            found[-1][1] = at
        before = line.get("phase")
    return [(start, round(max(end - start, 0.4), 2)) for start, end in found]


def _plots(run: Run, record: Record, lines: Sequence[Mapping[str, Any]], since: float) -> list[Plot]:
    span = _span(lines, since)

    def over_time(key: str) -> list[tuple[float, float]]:
        return [(float(line["at"]) - since, float(line[key])) for line in lines if isinstance(line.get(key), (int, float))]

    trial = record.memory.trial_peak_bytes if record.memory is not None else 0
    levels = {"cap": run.cap_bytes, "budget": run.budget_bytes, **({"its trial": trial} if trial else {})}
    memory = Unit(told=_bytes, size=GIB if run.cap_bytes > 4 * GIB else MIB)
    used, pace = (
        {"used": over_time("used_bytes"), "highest in between": over_time("peak_bytes")},
        {"samples/s": over_time("samples_per_second")},
    )
    drawn = (
        plot.plot("Memory", used, span=span, unit=memory, levels=levels),
        plot.plot("Samples a second", pace, span=span, unit=Unit(told=lambda value: f"{value:.3g}")),
        plot.plot("Loss", {"loss": over_time("loss")}, span=span, unit=Unit(told=lambda value: f"{value:.4g}")),
    )
    return [one for one in drawn if one is not None]


def _bytes(value: float) -> str:
    return format_size(int(value)) if value else "0"


def _versions(record: Record) -> str:
    """Python and the trainer's packages first, as a person reports them."""
    told = dict(record.environment)
    driver, cuda = told.pop("driver", ""), told.pop("cuda", "")
    packages = [f"{'Python' if name == 'python' else name} {version}" for name, version in told.items()]
    return ", ".join([*packages, *([f"CUDA {cuda}"] if cuda else []), *([f"driver {driver}"] if driver else [])])


def _about(run: Run, record: Record) -> list[tuple[str, str]]:
    """The environment, as far as it was written down."""
    device, kept = record.device, record.kept
    rows = [
        ("device", run.device),
        ("memory of the device", facts.size(device.total_bytes) if device else "-"),
        ("budget", f"{facts.size(run.budget_bytes)}{' (emulated: a share of the device)' if device and device.emulated else ''}"),
        ("cap of a trial", f"{facts.size(run.cap_bytes)} ({facts.size(run.budget_bytes - run.cap_bytes)} of the budget must stay free)"),
        (
            "others on the device",
            "; ".join(f"pid {one.get('pid', '?')}: {facts.size(one.get('used_bytes'))}" for one in device.neighbours) if device else "",
        ),
        ("remarks", "; ".join(device.notes) if device else ""),
        ("kept fit", f"no trial was made: kept since {kept.made}" if kept.used else kept.why),
        ("trials", f"{len(record.trials)}, {plot.duration(record.trial_seconds)}" if record.trials else ""),
        ("same training as asked", facts.same_training(record)),
        ("launched in", record.cwd),
        ("run folder", str(run.folder.path)),
        ("ran with", _versions(record)),
        ("autofit", __version__),
    ]
    return [(name, value) for name, value in rows if value]
