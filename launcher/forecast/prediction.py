"""What one phase of a rung is foreseen to need: a certain lower bound, two bounds of what is reserved, and what lies beside. Bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from launcher.adapter.tracing import CpuRest


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Predicted, never proven: nothing here says that a rung fits."""

    live_bytes: int
    """Storages alive at once: nothing can do with less. It was below what was measured at all 19 published points."""
    low_bytes: int
    """Reserved by the allocator with the least workspaces. On a CPU: data segments above the base, at the least."""
    high_bytes: int
    """The same with the most."""
    middle_bytes: int
    """The likeliest: between the two where this kind of card was seen."""
    context_bytes: int = 0
    """Beside the allocator: context, kernels, libraries. 0 on a CPU."""

    @property
    def peak_bytes(self) -> int:
        """The likeliest need of the device, context included: what is held against a cap."""
        return self.middle_bytes + self.context_bytes

    @property
    def least_bytes(self) -> int:
        """Below this nothing runs."""
        return self.live_bytes + self.context_bytes

    def beside(self, kept: int) -> Forecast:
        """With so many bytes more that aren't certain."""
        more = {"low_bytes": self.low_bytes + kept, "high_bytes": self.high_bytes + kept, "middle_bytes": self.middle_bytes + kept}
        return replace(self, **more)


def worst(forecasts: list[Forecast]) -> Forecast:
    """The phase that needs most."""
    return max(forecasts, key=lambda one: one.peak_bytes)


def on_cpu(live: int, rest: CpuRest) -> Forecast:
    """What a CPU's process needs: a third of the rest less, and a half more, for what other machines and models may take."""

    def with_rest(part: float) -> int:
        return round(live + part * (rest.constant_bytes + rest.share * live))

    return Forecast(live_bytes=live, low_bytes=with_rest(2 / 3), high_bytes=with_rest(3 / 2), middle_bytes=with_rest(1))
