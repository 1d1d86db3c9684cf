"""Gives the search its predictions: each rung's need as a fraction of the cap.

A card that isn't in the catalogue gets the middle between both bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.adapter.protocol import Adapter
from launcher.forecast import gpu_catalogue, trace_store
from launcher.forecast.forecaster import Forecaster
from launcher.forecast.gpu_catalogue import GpuModel
from launcher.ladder import extrapolation
from launcher.ladder.rungs import Ladder, Rung
from launcher.machine.devices import Budget
from launcher.shared.sizes import MIB

PATIENCE_S = 120.0
"""A trace that takes longer than this is given up; trials alone lead the search then."""


def forecaster_for(adapter: Adapter, ladder: Ladder, budget: Budget) -> Forecaster:
    """The forecaster for the device of a launch."""
    return Forecaster(adapter, ladder, card_of(budget) if budget.kind == "cuda" else None, patience_s=PATIENCE_S)


def card_of(budget: Budget) -> GpuModel:
    known = gpu_catalogue.like(budget.name)
    if known is not None:
        return known
    return GpuModel(
        title=budget.name,
        architecture="ampere",
        usable_mib=budget.total_bytes // MIB,
        cublas_bytes=8_519_680,
        context_mib=450,
        convolution=(1.0, 2.0),
        lean=0.5,
    )


def needs(forecaster: Forecaster, cap_bytes: int) -> dict[int, float | None]:
    """Rung index -> its likeliest peak over the cap; None if it has no forecast, or needs none.

    Traces are made down the ladder, as far as the first rung predicted to fit: those of smaller models and of checkpointed ones are needed
    only if everything above is too large.
    """
    found: dict[int, float | None] = {}
    for rung in forecaster.ladder.rungs:
        if not forecaster.gathered(rung) and any(need is not None and need <= 1 for need in found.values()):
            found[rung.index] = None
            continue
        peak = forecaster.peak(rung)
        found[rung.index] = peak.peak_bytes / cap_bytes if peak is not None else None
    return found | _replayed(forecaster, found, cap_bytes)


EDGE = 1.3
"""A peak within this factor of the cap is replayed under it."""
MOST_REPLAYED = 6
"""The most rungs that are replayed, at a second or two each."""


def _replayed(forecaster: Forecaster, needs: Mapping[int, float | None], cap_bytes: int) -> dict[int, float]:
    """Needs of rungs near the cap, replayed under it, down to the first that runs: an allocator with room reserves more than it needs."""
    found: dict[int, float] = {}
    for rung in forecaster.ladder.rungs if forecaster.card is not None else ():
        need = needs[rung.index]
        if need is None or need > EDGE:
            continue
        if need < 1 / EDGE or len(found) == MOST_REPLAYED:
            break
        goes = forecaster.goes_through(rung, cap_bytes)
        if goes is None:
            continue
        with_most, with_least = goes
        found[rung.index] = min(need, 1.0) if with_most else need if with_least else max(need, 1.0 + 1e-6)
        if with_most:
            break
    return found


def why_not(forecaster: Forecaster) -> tuple[str, ...]:
    """Why rungs have no forecast, each reason once."""
    return tuple(dict.fromkeys(why for rung in forecaster.ladder.rungs if forecaster.gathered(rung) and (why := forecaster.why_not(rung))))


class Lookahead:
    """Predictions for one launch, from outside its own trials (which correct them in the search).

    They come from trials of earlier launches (``past_trials``), and from traces, kept or made meanwhile. A context manager: leaving it ends
    traces that are still being made.
    """

    def __init__(self, adapter: Adapter, ladder: Ladder, budget: Budget, *, earlier: Sequence[extrapolation.Measured] = ()) -> None:
        self._forecaster, self._ladder, self._budget, self._earlier = forecaster_for(adapter, ladder, budget), ladder, budget, earlier
        self._making: trace_store.Making | None = None
        self._traced = False
        self.needs: dict[int, float | None] = {}
        """Rung index -> its need as a part of the cap; empty where nothing is known yet."""
        if self._forecaster.is_kept(ladder.asked):
            self.begin()

    def __enter__(self) -> Lookahead:
        return self

    def __exit__(self, *_: object) -> None:
        if self._making is not None:
            self._making.__exit__()

    def begin(self) -> None:
        """Starts making the asked rung's trace; ``look`` waits for it."""
        if self._making is None:
            self._making = self._forecaster.begin([self._ladder.asked])

    def look(self, *, within_s: float = 0.0) -> bool:
        """Waits at most ``within_s`` for a trace under way. Returns whether ``needs`` has changed. Raises Interrupted on a signal."""
        patience_s = 0.0 if self.by_trials else within_s
        if self._making is not None and not self._traced and self._making.over_within(patience_s):
            self._traced, traced = True, needs(self._forecaster, self._budget.cap_bytes)
        elif self.by_trials and not self.needs:
            traced = {}
        else:
            return False
        self.needs = extrapolation.needs(self._ladder.rungs, self._earlier, traced) if self._earlier else traced
        return True

    @property
    def by_trials(self) -> bool:
        """Whether trials of earlier launches suffice without a trace. Failures alone don't: they show only what is too much."""
        return any(one.fits for one in self._earlier)

    @property
    def why_not(self) -> tuple[str, ...]:
        """Why rungs can't be foreseen."""
        return why_not(self._forecaster)

    @property
    def first(self) -> Rung | None:
        """The first rung predicted to fit; None if there is none."""
        return next((rung for rung in self._ladder.rungs if (need := self.needs.get(rung.index)) is not None and need <= 1), None)
