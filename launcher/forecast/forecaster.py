"""Predicts each phase of each rung of a ladder for a card or the host's memory, or says why there is no prediction.

Rungs that differ only in sizes (samples in a batch, pixels, tokens) share a trace. Live bytes are exact at every size. What the allocator
would reserve for them is replayed at a few sizes and interpolated; where the cap decides, the rung is replayed under the cap.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.adapter import tracing
from launcher.adapter.protocol import Adapter
from launcher.adapter.tracing import Tracing, Untraceable, tracing_of
from launcher.forecast import live_peaks, trace_store
from launcher.forecast.gpu_catalogue import GpuModel
from launcher.forecast.prediction import Forecast, on_cpu, worst
from launcher.forecast.replay import Use, Workspaces, goes_through, replay
from launcher.ladder.rungs import Ladder, Rung
from launcher.shared.report import Phase
from launcher.shared.trace import ACCUMULATE, Began, Trace, TraceEvent

ANCHORS = (1 / 4, 1, 4)
"""Multiples of the traced number of samples at which a trace is replayed."""
PHASES = (Phase.TRAIN, Phase.VALIDATE)
BAND_BELOW, BAND_ABOVE = 0.02, 0.05
"""Beyond the two bounds: where there is no convolution they are one, and the transformers points that PyTorch 2 should give lie 1.5 % under
to 1.2 % above it; trainings on RTX 30xx need up to 4.7 % more than the low bound (docs/prediction.md)."""


class Forecaster:
    """Forecasts for the rungs of one ladder on one device. A trace is made when it is first needed; ``gather`` makes many at once."""

    def __init__(self, adapter: Adapter, ladder: Ladder, card: GpuModel | None, *, patience_s: float = trace_store.LONGEST_S) -> None:
        """``card``: None for the host's memory. ``patience_s``: rungs that take longer to trace have no forecast."""
        self._patience_s = patience_s
        self.adapter, self.ladder, self.card = adapter, ladder, card
        self._tracings: dict[int, Tracing | str] = {}
        self._families: dict[str, Family | str] = {}
        self._making: trace_store.Making | None = None

    def why_not(self, rung: Rung) -> str:
        """Why a rung has no forecast; empty if it has one."""
        family = self._family(rung)
        return family if isinstance(family, str) else ""

    def forecasts(self, rung: Rung) -> dict[Phase, Forecast] | None:
        """Phase (training, validation) -> its forecast; None if there is none."""
        family, tracing = self._family(rung), self.tracing(rung)
        if isinstance(family, str) or isinstance(tracing, str):
            return None
        found = family.forecasts(tracing, accumulates=rung.accumulation > 1)
        return {phase: one.beside(tracing.kept.get(phase, 0)) for phase, one in found.items()}

    def peak(self, rung: Rung) -> Forecast | None:
        """The forecast of the phase that needs most; None if there is none."""
        found = self.forecasts(rung)
        return worst(list(found.values())) if found else None

    def goes_through(self, rung: Rung, cap_bytes: int) -> tuple[bool, bool] | None:
        """(with the most workspaces, with the least): whether the rung runs within ``cap_bytes`` of the card, context included.

        It is replayed under that cap, since an allocator with more room reserves more than it needs. None if there is no forecast.
        """
        family, tracing = self._family(rung), self.tracing(rung)
        if isinstance(family, str) or isinstance(tracing, str):
            return None
        keeping = [one for phase, one in (self.forecasts(rung) or {}).items() if tracing.kept.get(phase)]
        if any(one.low_bytes + one.context_bytes > cap_bytes for one in keeping):  # no replay holds what is kept
            return False, False
        return family.goes_through(tracing, cap_bytes - family.context_bytes, accumulates=rung.accumulation > 1)

    def begin(self, rungs: Iterable[Rung]) -> trace_store.Making:
        """Starts making the traces that these rungs need. The caller must close what is returned; ``gather`` waits for them."""
        asks, environments = self._wanted(rungs)
        self._making = trace_store.Making(asks, environments=environments, patience_s=self._patience_s)
        return self._making

    def gather(self, rungs: Iterable[Rung]) -> None:
        """Makes the traces that these rungs still need, several at a time."""
        if self._making is not None:
            self._keep(self._making.found())
            self._making = None
        asks, environments = self._wanted(rungs)
        self._keep(trace_store.traces(asks, environments=environments, patience_s=self._patience_s))

    def _wanted(self, rungs: Iterable[Rung]) -> tuple[list[tracing.Ask], dict[str, Any]]:
        """(requests for the missing traces, module -> what makes its children's environment)"""
        wanted = {ask.key: (ask, one) for rung in rungs if isinstance(one := self.tracing(rung), Tracing) for ask in [one.ask()]}
        missing = [both for key, both in wanted.items() if key not in self._families]
        return [ask for ask, _ in missing], {one.module: one.environment for _, one in missing}

    def _keep(self, found: Mapping[str, Trace | str]) -> None:
        for key, trace in found.items():
            self._families[key] = (
                trace if isinstance(trace, str) else Family(trace=trace, card=self.card, profile=live_peaks.profile(trace))
            )

    def is_kept(self, rung: Rung) -> bool:
        """Whether the rung's trace was made by an earlier launch."""
        tracing = self.tracing(rung)
        return isinstance(tracing, Tracing) and trace_store.is_kept(tracing.ask())

    def gathered(self, rung: Rung) -> bool:
        """Whether the rung's trace has been made, or is known to be impossible."""
        tracing = self.tracing(rung)
        return isinstance(tracing, str) or tracing.ask().key in self._families

    def share(self, other: Forecaster) -> None:
        """Takes over the traces of another card's forecaster."""
        self._tracings |= other._tracings
        for key, family in other._families.items():
            self._families[key] = family if isinstance(family, str) else family.on(self.card)

    def traces(self) -> list[Trace]:
        """The traces made so far."""
        return [family.trace for family in self._families.values() if isinstance(family, Family)]

    def tracing(self, rung: Rung) -> Tracing | str:
        if rung.world_size > 1:
            return "several processes train together, and a trace is of one: what they keep to exchange gradients isn't in it"
        if rung.index not in self._tracings:
            try:
                self._tracings[rung.index] = tracing_of(self.adapter).tracing(rung, cuda=self.card is not None)
            except Untraceable as why:
                self._tracings[rung.index] = str(why)
        return self._tracings[rung.index]

    def _family(self, rung: Rung) -> Family | str:
        tracing = self.tracing(rung)
        if isinstance(tracing, str):
            return tracing
        key = tracing.ask().key
        if key not in self._families:
            self.gather([rung])
        return self._families[key]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One trace, and its forecasts on one card."""

    trace: Trace
    card: GpuModel | None
    profile: live_peaks.Profile
    _shares: dict[tuple[Workspaces, bool, bool], Shares] = field(default_factory=dict)

    def on(self, card: GpuModel | None) -> Family:
        """The same trace for another card; replays are kept, since they depend only on the workspaces."""
        return Family(trace=self.trace, card=card, profile=self.profile, _shares=self._shares)

    @property
    def context_bytes(self) -> int:
        return self.card.context_bytes if self.card is not None else 0

    def events(self, sizes: Mapping[str, int], *, accumulates: bool) -> list[TraceEvent]:
        """Events of a run of these sizes. Without accumulation no micro-batch finds gradients of earlier ones."""
        found = self.trace.at(sizes)
        if accumulates:
            return found
        end = next((at for at, event in enumerate(found) if isinstance(event, Began) and event.phase == ACCUMULATE), len(found))
        return found[:end]

    def live(self, sizes: Mapping[str, int], *, accumulates: bool) -> dict[Phase, int]:
        peaks = self.profile.at(sizes)
        training = max(peaks.get(Phase.TRAIN, 0), peaks.get(ACCUMULATE, 0) if accumulates else 0)
        return {phase: size for phase, size in ((Phase.TRAIN, training), (Phase.VALIDATE, peaks.get(Phase.VALIDATE, 0))) if size}

    def forecasts(self, tracing: Tracing, *, accumulates: bool) -> dict[Phase, Forecast]:
        live = self.live(tracing.sizes, accumulates=accumulates)
        if self.card is None:
            return {phase: on_cpu(size, tracing.rests[phase]) for phase, size in live.items()}
        return {phase: self._on_card(size, phase, tracing, self.card, accumulates) for phase, size in live.items()}

    def _on_card(self, live: int, phase: Phase, tracing: Tracing, card: GpuModel, accumulates: bool) -> Forecast:
        low, high = (self.shares(one, tracing, accumulates=accumulates).at(live, phase) for one in bounds(card, tracing))
        high = max(low, high)
        return Forecast(
            live_bytes=live,
            low_bytes=max(live, round(live * low * (1 - BAND_BELOW))),
            high_bytes=round(live * high * (1 + BAND_ABOVE)),
            middle_bytes=round(live * (low + card.lean * (high - low))),
            context_bytes=card.context_bytes,
        )

    def shares(self, workspaces: Workspaces, tracing: Tracing, *, accumulates: bool) -> Shares:
        key = (workspaces, tracing.expandable, accumulates)
        if key not in self._shares:
            points: dict[Phase, list[tuple[float, float]]] = {phase: [] for phase in PHASES}
            traced_at = self.trace.traced_at
            for factor in ANCHORS:
                sizes = {**traced_at, **{name: max(1, round(traced_at[name] * factor)) for name in tracing.samples}}
                live = self.live(sizes, accumulates=accumulates)
                used = _reserved(replay(self.events(sizes, accumulates=accumulates), workspaces, expandable=tracing.expandable))
                for phase, size in live.items():
                    points[phase].append((math.log(size), used[phase] / size))
            self._shares[key] = Shares(points={phase: tuple(sorted(set(found))) for phase, found in points.items()})
        return self._shares[key]

    def goes_through(self, tracing: Tracing, capacity: int, *, accumulates: bool) -> tuple[bool, bool]:
        """With (the most, the least) of workspaces."""
        assert self.card is not None
        if capacity <= 0:
            return False, False
        found = self.events(tracing.sizes, accumulates=accumulates)
        low, high = bounds(self.card, tracing)
        how: Any = {"expandable": tracing.expandable, "emptied_above": tracing.emptied_above}
        if goes_through(found, high, capacity, **how):
            return True, True
        return False, goes_through(found, low, capacity, **how)


def bounds(card: GpuModel, tracing: Tracing) -> tuple[Workspaces, Workspaces]:
    """(low, high) bounds of workspaces, with the cuBLAS workspace that the trainer sets."""
    return card.bounds(least_cublas_bytes=tracing.cublas_bytes)


def _reserved(uses: Iterable[Use]) -> dict[Phase, int]:
    """Training is the worse of its two phases."""
    found: dict[Phase, int] = dict.fromkeys(PHASES, 0)
    for use in uses:
        phase = next((one for one in PHASES if one == (Phase.TRAIN if use.phase == ACCUMULATE else use.phase)), None)
        if phase is not None:
            found[phase] = max(found[phase], use.reserved_bytes)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """Ratio of reserved to live bytes, as a function of the logarithm of live bytes."""

    points: Mapping[Phase, tuple[tuple[float, float], ...]]

    def at(self, live: int, phase: Phase) -> float:
        """Interpolated between two points; beyond them that of the nearest."""
        points, at = self.points[phase], math.log(live)
        place = bisect_left(points, (at, 0.0))
        if place == 0 or place == len(points):
            return points[min(place, len(points) - 1)][1]
        (before, low), (after, high) = points[place - 1], points[place]
        return low + (high - low) * (at - before) / (after - before)
