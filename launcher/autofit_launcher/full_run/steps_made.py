"""Counts the optimizer steps that a full run has made, as far as they can be seen from outside.

Processes that hold themselves to a budget count them (``inside.steps``); accumulation from outside prints them at its end; the progress
bar of a trainer that counts optimizer steps shows them. Of any other run nothing is known.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

from autofit_launcher.adapter.log_line import LogLine
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.ladder.course import Due
from autofit_launcher.shared.orders import STEPS

LAST_LINES = 400
"""A line about early stopping counts only this many lines before the end; earlier it is about a setting."""
_STOPPED_EARLY = re.compile(r"\bearly[ _-]?stopp(ing|ed)\b|\bstopp(ed|ing)( \w+)? early\b", re.IGNORECASE)
_NOT_YET = re.compile(
    r"counter|patience\W{0,2}[=:]|no early|without early|enabled|disabled|stopping\W*[=:]\W*(true|false|none|null|\d)", re.IGNORECASE
)


class StepsMade:
    """Counts the optimizer steps of one attempt."""

    def __init__(self, processes: Path) -> None:
        """``processes``: the folder in which its processes write their base and their steps."""
        self._processes = processes
        self._said: int | None = None
        self._lines = 0
        self._stopped: tuple[int, str] | None = None

    def heard(self, line: str, said: LogLine) -> None:
        """A line of the run's."""
        self._lines += 1
        if _STOPPED_EARLY.search(line) and not _NOT_YET.search(line):
            self._stopped = self._lines, line.strip()[:120]
        if said.optimizer_steps is not None:
            self._said = said.optimizer_steps

    def counted(self) -> int | None:
        """Steps of the process that made most; None if no process counts them, or if several optimizers step in it."""
        told = self._processes.glob(f"*{STEPS}") if self._processes.is_dir() else ()
        most: list[int] = max(map(_steps_told, told), key=sum, default=[])
        return most[0] if len(most) == 1 else None

    @property
    def stopped_early(self) -> str:
        """The line, among its last, in which the run says that it stopped early; else empty."""
        return self._stopped[1] if self._stopped is not None and self._lines - self._stopped[0] < LAST_LINES else ""

    def in_all(self, progress: Progress, due: Due | None) -> int | None:
        """Steps of a run that has ended; None if unknown. A progress bar counts if its length is the trainer's own number of steps."""
        if (counted := self.counted()) is not None:
            return counted
        if self._said is not None:
            return self._said
        by_bar = due is not None and due.sure and not progress.of_epoch and progress.steps == due.most
        return progress.step if by_bar else None


def _steps_told(path: Path) -> list[int]:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return [int(one) for one in json.loads(path.read_text(encoding="utf-8"))["steps"]]
    return []
