"""Draws rungs: a ladder as a table, one trial phase by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from autofit_launcher.cli import prose, tables
from autofit_launcher.cli.tables import Column
from autofit_launcher.ladder import rungs
from autofit_launcher.page import facts
from autofit_launcher.shared.sizes import format_size

if TYPE_CHECKING:
    from autofit_launcher.ladder.rungs import Ladder
    from autofit_launcher.trial.trial import Trial


def ladder(ladder: Ladder, console: Console) -> None:
    """Draws every rung, numbered."""
    columns = [Column(name) for name in ("rung", *(wheel.name for wheel in ladder.wheels), "accum", "effective")]
    rows = [
        [Text(str(cell)) for cell in (rung.index, *map(rungs.value, rung.values.values()), rung.accumulation, rung.effective_batch)]
        for rung in ladder.rungs
    ]
    tables.show(console, columns, rows)


def report(trial: Trial, console: Console) -> None:
    """Draws one trial, phase by phase."""
    columns = [Column("phase", right=False)]
    columns += [Column(name) for name in ("batches", "seconds", "allocated", "reserved", "outside", "device")]
    rows = []
    for use in trial.report.uses:
        peaks = (use.allocated_bytes, use.reserved_bytes, use.outside_bytes, use.device_bytes)
        rows.append([Text(cell) for cell in (use.phase, str(use.batches), f"{use.seconds:.2f}", *map(facts.size, peaks))])
    if rows:
        tables.show(console, columns, rows, title=f"rung {trial.rung.index}: {trial.rung}")
    prose.say(console, f"cap {format_size(trial.report.cap_bytes)}; {trial.report.optimizer_steps} optimizer steps")
