"""Past runs' peaks beside their trials' -> the least headroom that they justify (``device.headroom=auto``).

A run needs no more than its budget where run peak <= budget, and its trial was held to budget x (1 - headroom): so a run that peaked at r
times its trial wants a headroom of 1 - 1/r. Of 59 runs the largest r is, with 95 % confidence, one that 95 % of all runs stay below
(0.95^59 < 0.05, whatever their distribution); fewer than that justify nothing less than the usual 10 %, but one bad run justifies more.
Each finished run of a trainer on a device adds its pair to ``peaks.jsonl`` in autofit's data folder. docs/decisions/013.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from launcher.history import jsonl

USUAL = 0.10
"""The headroom where nothing is known."""
ENOUGH = 59
"""Pairs that justify less than the usual headroom."""
LEAST = 0.02
"""Never less: a verdict within about 1 % of the cap can differ from one process to the next."""
MARGIN = 0.01
"""On top of what the worst pair wants, for the same reason."""
NEWEST = 500
"""So many of the newest pairs count: trainers, drivers and autofit change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One full run beside the trial that it was launched after. Bytes."""

    trainer: str
    device: str
    """The device's name: what holds for one card of a kind holds for another."""
    recipe: str
    trial_peak_bytes: int
    run_peak_bytes: int
    budget_bytes: int
    out_of_memory: bool = False
    """The run died of memory: it needed more than its budget, however much of that was seen."""
    at: str = ""

    @property
    def ratio(self) -> float:
        """What the run needed over what its trial had shown."""
        needed = max(self.run_peak_bytes, self.budget_bytes) if self.out_of_memory else self.run_peak_bytes
        return needed / self.trial_peak_bytes

    @property
    def wanted(self) -> float:
        """The headroom that would have held this run."""
        return max(0.0, 1 - 1 / self.ratio)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A headroom, and why it is that."""

    headroom: float
    why: str


def choose(pairs: Sequence[Pair]) -> Choice:
    """The least headroom that the pairs of one trainer on one device justify."""
    count = len(pairs)
    worst = max(pairs, key=lambda pair: pair.ratio, default=None)
    wanted = worst.wanted + MARGIN if worst is not None else 0.0
    if count < ENOUGH:
        seen = f"{count} of the {ENOUGH} past runs that would justify less are known"
        if wanted > USUAL and worst is not None:
            return Choice(headroom=min(wanted, 0.5), why=f"{seen}, and one ({worst.recipe}) needed {worst.ratio:.1%} of its trial")
        return Choice(headroom=USUAL, why=seen)
    assert worst is not None
    headroom = min(max(LEAST, wanted), 0.5)
    return Choice(headroom=headroom, why=f"the largest of {count} past runs needed {worst.ratio:.1%} of its trial ({worst.recipe})")


def keep(pair: Pair) -> None:
    """Adds a pair for the launches to come; one whose peaks were not both seen tells nothing. A disk that is full loses it."""
    if not pair.trial_peak_bytes or not (pair.run_peak_bytes or pair.out_of_memory):
        return
    jsonl.add(store(), [{**asdict(pair), "at": datetime.now(UTC).isoformat(timespec="seconds")}])


def known(path: Path | None = None) -> list[Pair]:
    """Every pair that was kept, oldest first."""
    return [pair for pair in jsonl.read(path or store(), Pair) if pair.trial_peak_bytes > 0]


def of(pairs: Iterable[Pair], *, trainer: str, device: str) -> list[Pair]:
    """The newest of one trainer on one device."""
    return [pair for pair in pairs if pair.trainer == trainer and pair.device == device][-NEWEST:]


def store() -> Path:
    """Where pairs are kept: data of the person's, not a cache."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "autofit" / "peaks.jsonl"
