"""The verdict on a trial: what kind it is, and its evidence. Pure.

Need is measured, not squeezed: a trial fits where it stayed below its cap while there was more to be had (docs/decisions/011).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from launcher.shared.memory_failures import Source


class Kind(StrEnum):
    """The nine ways a trial can end. Only ``FITS`` launches."""

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
    """What happened at one rung, as data."""

    kind: Kind
    phase: str
    """The phase it ended in (``report.Phase``)."""
    why: str
    """One sentence for people."""
    source: Source | None = None
    """For memory failures: who refused."""
    asked_bytes: int | None = None
    """For memory failures: how much the failing allocation asked for, where its text says so."""
    took: int | None = None
    """The micro-batch that the trainer took instead of the asked one, where it went below that by itself."""
    otherwise: tuple[str, ...] = ()
    """For ``altered``: the settings that ran otherwise than told, where no memory failure is why."""
    peak_bytes: int = 0
    """Most memory the trial held (CUDA: reserved by the allocator and held outside of it; data segments on the CPU)."""
    evidence: str = ""
    """The words of the trainer this was concluded from: a line, or a traceback for a crash."""

    @property
    def fits(self) -> bool:
        return self.kind is Kind.FITS

    @property
    def lower_rung_may_help(self) -> bool:
        """True for every failure of memory; a crash, a stall, a loss that is not finite or a vacuous trial stops the walk at once.

        A card that others hold is neither: the same rung is tried again when it is free.
        """
        return self.kind in (Kind.OUT_OF_MEMORY, Kind.SPILLED, Kind.ALTERED)
