"""A traced training, from which its allocations at any size are computed: each is a coefficient times powers of the run's sizes.

A trace is taken once for everything that shares a model and its settings. It is taken with sizes (samples in a batch, side of an
image, tokens) that are primes dividing nothing else of the model, so that the bytes of each storage tell how they grow: with 13 images
of 11 x 32 pixels a side, 13 * 11 * 11 * n bytes are n for each image and each 32 x 32 pixels. What no prime divides stays as it is.
Tensors without memory make this free, and one trace serves every rung. Pure Python, no torch.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from launcher.shared import files
from launcher.shared.report import Phase

ACCUMULATE = "accumulate"
"""The last phase of a trace: a micro-batch that finds the gradients of those before it. A run without accumulation ends before."""
FORMAT = 2
"""Of the file. A child that writes another is of another autofit."""


class Took(NamedTuple):
    """A storage came to life."""

    key: int
    size: int


class Gave(NamedTuple):
    """It died."""

    key: int


class Began(NamedTuple):
    """A phase begins."""

    phase: str


class Convolved(NamedTuple):
    """A convolution ran on so many bytes of input, weight and output; what workspace that takes is the card's business."""

    backward: bool
    given: int
    weight: int
    made: int
    pointwise: bool


class Multiplied(NamedTuple):
    """A product of matrices ran: cuBLAS takes its workspace at the first of each thread."""

    backward: bool


TraceEvent = Took | Gave | Began | Convolved | Multiplied
_KINDS: Mapping[str, type[Any]] = {"a": Took, "f": Gave, "m": Began, "c": Convolved, "b": Multiplied}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Grows:
    """Bytes as a coefficient times powers of the sizes."""

    coefficient: int
    powers: tuple[int, ...]
    """By size, in the trace's order."""

    def at(self, sizes: Sequence[int]) -> int:
        return self.coefficient * int(math.prod(size**power for size, power in zip(sizes, self.powers, strict=True) if power))


def grows(size: int, primes: Sequence[int]) -> Grows:
    """How ``size`` bytes, seen at these primes, grow."""
    powers = []
    for prime in primes:
        power = 0
        while size and size % prime == 0:
            size //= prime
            power += 1
        powers.append(power)
    return Grows(coefficient=size, powers=tuple(powers))


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """What was seen of one training."""

    traced_at: Mapping[str, int]
    """Size -> the prime that it was traced at."""
    events: tuple[TraceEvent, ...]
    versions: Mapping[str, str]
    """Package -> version it was made with."""
    assumed: tuple[str, ...] = ()
    """Sentences: what was answered in the place of data."""
    facts: Mapping[str, Any] | None = None

    def at(self, sizes: Mapping[str, int]) -> list[TraceEvent]:
        """The events of a run of these sizes. Raises KeyError where one is missing."""
        wanted = [sizes[name] for name in self.traced_at]
        primes = list(self.traced_at.values())
        known: dict[int, int] = {}

        def scaled(size: int) -> int:
            if size not in known:
                known[size] = grows(size, primes).at(wanted)
            return known[size]

        def there(event: TraceEvent) -> TraceEvent:
            if isinstance(event, Took):
                return Took(event.key, scaled(event.size))
            if isinstance(event, Convolved):
                return Convolved(event.backward, scaled(event.given), scaled(event.weight), scaled(event.made), event.pointwise)
            return event

        return [there(event) for event in self.events]


def write(path: Path, trace: Trace) -> None:
    """Whole or not at all, compressed: 25,000 events are some 100 KB."""
    events = [[_LETTERS[type(event)], *event] for event in trace.events]
    value = {
        "format": FORMAT, "traced_at": trace.traced_at, "events": events, "versions": trace.versions, "assumed": trace.assumed,
        "facts": trace.facts,
    }  # fmt: skip
    files.replace_bytes(path, gzip.compress(json.dumps(files.plain(value)).encode(), compresslevel=3, mtime=0))


def read_trace(path: Path) -> Trace | None:
    """None where there is none, it is torn, or of another format."""
    try:
        found = json.loads(gzip.decompress(path.read_bytes()))
        if found["format"] != FORMAT:
            return None
        return Trace(
            traced_at=found["traced_at"],
            events=tuple(_KINDS[letter](*said) for letter, *said in found["events"]),
            versions=found["versions"],
            assumed=tuple(found["assumed"]),
            facts=found["facts"],
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None


def live(events: Iterable[TraceEvent]) -> dict[str, int]:
    """Phase -> peak of live bytes: with no allocator at all, what nothing can do with less than."""
    held, sizes, phase = 0, {}, Phase.START.value
    peaks = {phase: 0}
    for event in events:
        if isinstance(event, Took):
            sizes[event.key] = event.size
            held += event.size
        elif isinstance(event, Gave):
            held -= sizes.pop(event.key)
            continue
        elif isinstance(event, Began):
            phase = event.phase
        else:
            continue
        if held > peaks.get(phase, -1):
            peaks[phase] = held
    return peaks
