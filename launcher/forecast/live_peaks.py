"""Computes a trace's peak of live bytes at any size, in microseconds: only the moments that can be the peak are kept.

Live bytes at a moment are a sum of terms, one for each way of growing with the sizes. A moment is never the peak, at any size, if each
term of another moment of its phase is at least as large; a few dozen of 20,000 moments are left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.shared.report import Phase
from launcher.shared.trace import Began, Gave, Took, Trace, grows

Powers = tuple[int, ...]
Moment = tuple[int, ...]
"""Live bytes by term."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """For each phase, the moments that can be its peak."""

    sizes: tuple[str, ...]
    terms: tuple[Powers, ...]
    phases: Mapping[str, tuple[Moment, ...]]

    def at(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Phase -> peak of live bytes."""
        values = [sizes[name] for name in self.sizes]
        factors = [math.prod(value**power for value, power in zip(values, powers, strict=True) if power) for powers in self.terms]
        return {
            phase: max(sum(bytes_ * factor for bytes_, factor in zip(moment, factors, strict=True)) for moment in moments)
            for phase, moments in self.phases.items()
        }


def profile(trace: Trace) -> Profile:
    primes = list(trace.traced_at.values())
    known = {size: grows(size, primes) for size in {event.size for event in trace.events if isinstance(event, Took)}}
    terms = sorted({one.powers for one in known.values()})
    place = {powers: number for number, powers in enumerate(terms)}
    held, alive = [0] * len(terms), {}
    moments: dict[str, list[Moment]] = {Phase.START.value: [tuple(held)]}
    phase, rising = Phase.START.value, False
    for event in trace.events:
        if isinstance(event, Took):
            one = known[event.size]
            alive[event.key] = (place[one.powers], one.coefficient)
            held[place[one.powers]] += one.coefficient
            rising = True
        elif isinstance(event, Gave | Began):
            if rising or isinstance(event, Began):
                moments[phase].append(tuple(held))
                rising = False
            if isinstance(event, Gave):
                at, size = alive.pop(event.key)
                held[at] -= size
            else:
                phase = event.phase
                moments.setdefault(phase, []).append(tuple(held))
    moments[phase].append(tuple(held))
    return Profile(sizes=tuple(trace.traced_at), terms=tuple(terms), phases={name: undominated(found) for name, found in moments.items()})


def undominated(moments: Sequence[Moment]) -> tuple[Moment, ...]:
    """The moments that no other reaches or exceeds in every term."""
    kept: list[Moment] = []
    for moment in sorted(set(moments), key=sum, reverse=True):  # what dominates has the larger sum
        if not any(all(ours <= theirs for ours, theirs in zip(moment, other, strict=True)) for other in kept):
            kept.append(moment)
    return tuple(kept)
