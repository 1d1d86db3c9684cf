"""The forecast for one phase of a rung, in bytes: a certain lower bound, two bounds of what is reserved, and what lies beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from launcher.adapter.tracing import CpuRest


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Predicted, never proven: nothing here says that a rung fits."""

    live_bytes: int
    """Bytes live at once; less is impossible. It was below the measured figure at all 19 published points."""
    low_bytes: int
    """Bytes reserved by the allocator with the least workspaces. On a CPU: the low bound of data segments above the base."""
    high_bytes: int
    """The same with the most."""
    middle_bytes: int
    """The likeliest: between the two bounds, where this kind of card was seen."""
    context_bytes: int = 0
    """Outside the allocator: context, kernels, libraries. 0 on a CPU."""

    @property
    def peak_bytes(self) -> int:
        """The likeliest need, context included; this is compared with a cap."""
        return self.middle_bytes + self.context_bytes

    @property
    def least_bytes(self) -> int:
        """Below this nothing runs."""
        return self.live_bytes + self.context_bytes

    def beside(self, kept: int) -> Forecast:
        """The forecast with ``kept`` bytes more, which don't count in the certain lower bound."""
        more = {"low_bytes": self.low_bytes + kept, "high_bytes": self.high_bytes + kept, "middle_bytes": self.middle_bytes + kept}
        return replace(self, **more)


def worst(forecasts: list[Forecast]) -> Forecast:
    """The phase that needs most."""
    return max(forecasts, key=lambda one: one.peak_bytes)


def on_cpu(live: int, rest: CpuRest) -> Forecast:
    """The forecast on a CPU. Bounds: a third of the rest less and a half more, for other machines and models."""

    def with_rest(part: float) -> int:
        return round(live + part * (rest.constant_bytes + rest.share * live))

    return Forecast(live_bytes=live, low_bytes=with_rest(2 / 3), high_bytes=with_rest(3 / 2), middle_bytes=with_rest(1))
