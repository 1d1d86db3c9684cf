"""Replays a trace's allocations on a simulated card: what each phase allocates and reserves, and whether it goes through under a cap.

Workspaces of cuBLAS and of cuDNN's convolutions, which no trace has, are added. cuDNN chooses theirs by card and version, so there are two
bounds (``Workspaces``). Pure Python, no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.forecast.caching_allocator import Full, SimulatedAllocator
from launcher.forecast.expandable_segments import ExpandableAllocator
from launcher.shared.report import Phase
from launcher.shared.trace import Began, Convolved, Gave, Took, TraceEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspaces:
    """Memory that kernels take in addition to their operands."""

    cublas_bytes: int = 8_519_680
    """Per thread that multiplies matrices; forward and backward have one each."""
    convolution_share: float = 1.0
    """Fraction of the bytes of a backward convolution's input, weight and output."""
    pointwise: bool = False
    """Whether 1 x 1 convolutions take it, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """What one phase used at most. Bytes."""

    phase: str
    allocated_bytes: int
    reserved_bytes: int


def replay(
    events: Sequence[TraceEvent],
    workspaces: Workspaces,
    *,
    capacity: int | None = None,
    expandable: bool = False,
    emptied_above: float = 1.0,
) -> list[Use]:
    """What each phase uses, in order. Raises Full where ``capacity`` isn't enough. ``emptied_above``: see ``Tracing``.

    Without ``capacity``, empty segments are freed before each phase, so that a phase's use is its own need and not what the phase before
    has cached.
    """
    card = (ExpandableAllocator if expandable else SimulatedAllocator)(capacity=capacity)
    uses: list[Use] = []
    phase, highest, multiplied = Phase.START.value, 0, [False, False]
    for event in events:
        if isinstance(event, Took):
            card.allocate(event.key, event.size)
        elif isinstance(event, Gave):
            card.release(event.key)
            continue
        elif isinstance(event, Began):
            uses.append(Use(phase=phase, allocated_bytes=card.peak_allocated, reserved_bytes=max(highest, card.reserved)))
            phase, highest, card.peak_allocated = event.phase, 0, card.allocated
            if capacity is None or (phase == Phase.VALIDATE and card.reserved > emptied_above * capacity):
                card.empty_cache()
        elif isinstance(event, Convolved):
            _workspace(card, event, workspaces)
        elif not multiplied[event.backward] and workspaces.cublas_bytes:
            multiplied[event.backward] = True
            card.allocate(("cublas", event.backward), workspaces.cublas_bytes)
        highest = max(highest, card.reserved)
    uses.append(Use(phase=phase, allocated_bytes=card.peak_allocated, reserved_bytes=max(highest, card.reserved)))
    return uses


def _workspace(card: SimulatedAllocator, event: Convolved, workspaces: Workspaces) -> None:
    """Adds the workspace of a backward convolution. Forward ones don't matter: the peak is at the end of the forward pass."""
    size = int(workspaces.convolution_share * (event.given + event.weight + event.made))
    if event.backward and size and (workspaces.pointwise or not event.pointwise):
        for _ in range(2):  # gradients of the input, then of the weight
            card.allocate("workspace", size)
            card.release("workspace")


def goes_through(
    events: Sequence[TraceEvent], workspaces: Workspaces, capacity: int, *, expandable: bool, emptied_above: float = 1.0
) -> bool:
    """Whether the run goes through if the allocator may reserve ``capacity`` bytes."""
    try:
        replay(events, workspaces, capacity=capacity, expandable=expandable, emptied_above=emptied_above)
    except Full:
        return False
    return True
