"""Gives the search its predictions: what each rung will need as a part of the cap.

A card that the catalogue doesn't know is taken for one of no known kind, with the middle between both bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.adapter.protocol import Adapter
from launcher.forecast import gpu_catalogue
from launcher.forecast.forecaster import Foresight
from launcher.forecast.gpu_catalogue import Card
from launcher.ladder import extrapolation
from launcher.ladder.rungs import Ladder, Rung
from launcher.machine.devices import Budget
from launcher.shared.sizes import MIB

PATIENCE_S = 120.0
"""A launch that would wait longer for a trace is led by its trials alone."""


def foresight(adapter: Adapter, ladder: Ladder, budget: Budget) -> Foresight:
    """Forecasts for the very device of a launch."""
    return Foresight(adapter, ladder, card_of(budget) if budget.kind == "cuda" else None, patience_s=PATIENCE_S)


def card_of(budget: Budget) -> Card:
    known = gpu_catalogue.like(budget.name)
    if known is not None:
        return known
    return Card(
        title=budget.name,
        architecture="ampere",
        usable_mib=budget.total_bytes // MIB,
        cublas_bytes=8_519_680,
        context_mib=450,
        convolution=(1.0, 2.0),
        lean=0.5,
    )


def parts(sight: Foresight, cap_bytes: int) -> dict[int, float | None]:
    """Rung index -> its likeliest peak over the cap; None where it can't be foreseen, or needn't be.

    Traces are made one after another down the ladder, as far as the first rung that is foreseen to fit: those of smaller models and of
    checkpointed ones are needed only where all above is too large.
    """
    found: dict[int, float | None] = {}
    for rung in sight.ladder.rungs:
        if not sight.gathered(rung) and any(part is not None and part <= 1 for part in found.values()):
            found[rung.index] = None
            continue
        peak = sight.peak(rung)
        found[rung.index] = peak.peak_bytes / cap_bytes if peak is not None else None
    return found | _replayed(sight, found, cap_bytes)


EDGE = 1.3
"""A peak within this factor of the cap is replayed under it."""
MOST_REPLAYED = 6
"""Rungs that are, at a second or two each."""


def _replayed(sight: Foresight, parts: Mapping[int, float | None], cap_bytes: int) -> dict[int, float]:
    """On a card what is reserved where there is room isn't the need: down to the first rung that goes through under the cap."""
    found: dict[int, float] = {}
    for rung in sight.ladder.rungs if sight.card is not None else ():
        part = parts[rung.index]
        if part is None or part > EDGE:
            continue
        if part < 1 / EDGE or len(found) == MOST_REPLAYED:
            break
        goes = sight.goes_through(rung, cap_bytes)
        if goes is None:
            continue
        with_most, with_least = goes
        found[rung.index] = min(part, 1.0) if with_most else part if with_least else max(part, 1.0 + 1e-6)
        if with_most:
            break
    return found


def why_not(sight: Foresight) -> tuple[str, ...]:
    """Why rungs can't be foreseen, each reason once."""
    return tuple(dict.fromkeys(why for rung in sight.ladder.rungs if sight.gathered(rung) and (why := sight.why_not(rung))))


class Ahead:
    """What the rungs of one launch are foreseen to need, before any of its trials: what those measure, the search itself is led by.

    Made, it begins with the asked rung's trace, if that isn't kept; ``look`` waits for it. Left, it ends what nobody waits for any more.
    A trace is held to what earlier launches' trials measured (``past_trials``); where one of those fitted, none is waited for.
    """

    def __init__(self, adapter: Adapter, ladder: Ladder, budget: Budget, *, earlier: Sequence[extrapolation.Seen] = ()) -> None:
        self._sight, self._budget, self._earlier = foresight(adapter, ladder, budget), budget, earlier
        self._making = self._sight.begin([ladder.asked])
        self.parts: dict[int, float | None] = {}
        """Rung index -> its need as a part of the cap (``parts``); empty before ``look``."""

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._making.__exit__()

    def at_hand(self, *, within_s: float = 0.0) -> bool:
        """Whether nothing has to be waited for any more that the asked rung hangs on, after waiting so long at most. Raises Interrupted
        on a signal."""
        return self.by_trials or self._making.over_within(within_s)

    def look(self) -> None:
        """Waits for what traces are needed. Raises Interrupted on a signal."""
        traced = parts(self._sight, self._budget.cap_bytes) if not self.by_trials or self._making.over else {}
        self.parts = extrapolation.needs(self._sight.ladder.rungs, self._earlier, traced) if self._earlier else traced

    @property
    def by_trials(self) -> bool:
        """Whether trials of earlier launches say enough to wait for no trace. Failures alone say only what is too much."""
        return any(one.fits for one in self._earlier)

    @property
    def why_not(self) -> tuple[str, ...]:
        """Why rungs can't be foreseen."""
        return why_not(self._sight)

    @property
    def named(self) -> Rung | None:
        """The first rung that is foreseen to fit."""
        return next((rung for rung in self._sight.ladder.rungs if (part := self.parts.get(rung.index)) is not None and part <= 1), None)
