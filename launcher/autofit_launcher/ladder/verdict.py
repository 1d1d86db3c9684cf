"""The verdict on a trial: what kind it is, and its evidence. Pure.

A trial fits if it stayed below its cap although it could have had more, so that its need is measured (docs/decisions/004).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autofit_launcher.common.memory_failures import Source


class Kind(StrEnum):
    """The ways in which a trial can end. Only ``FITS`` launches."""

    FITS = "fits"
    OUT_OF_MEMORY = "out_of_memory"
    SPILLED = "spilled"  # ran, but out of the card
    CARD_TAKEN = "card_taken"  # others hold memory of the card that the budget counts on: says nothing of the rung
    ALTERED = "altered"  # the trainer ran something else than asked
    VACUOUS = "vacuous"  # did not really do its steps and its validation
    DIVERGED = "diverged"  # the loss was not finite: memory has nothing to do with it
    CRASHED = "crashed"
    STALLED = "stalled"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The outcome of a trial of one rung."""

    kind: Kind
    phase: str
    """The phase it ended in (``report.Phase``)."""
    why: str
    """A sentence for people that says why."""
    source: Source | None = None
    """The part that refused the memory, of a memory failure."""
    asked_bytes: int | None = None
    """Bytes that the failing allocation of a memory failure asked for; None if its message doesn't say."""
    otherwise: tuple[str, ...] = ()
    """The settings of an ``altered`` trial that ran otherwise than told, unless a memory failure is the reason."""
    peak_bytes: int = 0
    """Most memory that the trial held. CUDA: reserved by the allocator plus outside it; CPU: data segments."""
    evidence: str = ""
    """The trainer's output that shows it: a line, or a traceback for a crash."""

    @property
    def fits(self) -> bool:
        return self.kind is Kind.FITS

    @property
    def lower_rung_may_help(self) -> bool:
        """True for failures of memory, which a lower rung may cure. A crash, a stall, a loss that is not finite or a vacuous trial ends the
        search.

        False also for ``CARD_TAKEN``: the same rung is tried again when the card is free.
        """
        return self.kind in (Kind.OUT_OF_MEMORY, Kind.SPILLED, Kind.ALTERED)
