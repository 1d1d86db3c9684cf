"""The ladder: every rung the launcher may fall back to, best first. Pure.

Rungs are enumerated like an odometer's numbers: the first wheel of the order turns fastest; when a slower wheel moves, the faster ones
return to what was asked. Every rung keeps micro-batch x gradient accumulation steps x world size at the effective batch asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Value = bool | int | float | str | None
"""A value that a wheel can have."""
ActsIn = Literal["training", "validation", "both", "host"]

MICRO_BATCH = "micro_batch"
ACCUMULATION = "accumulation"
CHECKPOINTING = "checkpointing"
AS_ASKED = ("val_micro_batch", MICRO_BATCH, "workers", CHECKPOINTING)
"""Wheels that leave the training as it is asked, so that they turn unasked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """A setting that the ladder changes, with its values from the asked one to the last allowed."""

    name: str
    values: tuple[Value, ...]
    acts_in: ActsIn = "both"

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"wheel {self.name} has no value")
        if len(set(map(repr, self.values))) != len(self.values):
            raise ValueError(f"wheel {self.name} has a value twice: {self.values}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rung:
    """A configuration to try."""

    index: int
    values: Mapping[str, Value]
    """Wheel name -> value, in the ladder's order."""
    position: tuple[int, ...]
    """The number of values by which each wheel is turned from the asked one; 0 is the asked value."""
    accumulation: int
    """Gradient accumulation steps."""
    world_size: int = 1

    @property
    def micro_batch(self) -> int:
        """Samples per device per forward and backward pass; 0 where a command's isn't known."""
        value = self.values[MICRO_BATCH]
        assert isinstance(value, int) or value is None
        return value or 0

    @property
    def effective_batch(self) -> int:
        """Samples per optimizer step; 0 where they aren't known."""
        return self.micro_batch * self.accumulation * self.world_size

    @property
    def told(self) -> dict[str, Any]:
        """The rung as records name it."""
        return {"rung_index": self.index, "rung": dict(self.values), "accumulation": self.accumulation}

    def __str__(self) -> str:
        return words({**self.values, **({"accumulation": self.accumulation} if self.micro_batch else {})})


def words(told: Mapping[str, Any]) -> str:
    """A rung's settings for people."""
    known = {name: now for name, now in told.items() if now not in (None, False)}
    said = known if known.keys() != {"accumulation"} else {}  # of an unknown batch
    return ", ".join(f"{name} {value(now)}" for name, now in said.items()) or "the command as it stands"


def value(told: object) -> str:
    """One of a rung's settings, for people."""
    return "-" if told is None else "on" if told is True else "off" if told == 0 else str(told)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ladder:
    """The wheels in order (fastest first) and all their rungs (best first)."""

    wheels: tuple[Wheel, ...]
    rungs: tuple[Rung, ...]
    effective_batch: int
    """Samples per optimizer step as asked; the same on every rung, unless ``ladder.keep_batch`` is false."""

    @property
    def asked(self) -> Rung:
        return self.rungs[0]

    def given_up(self, rung: Rung) -> dict[str, tuple[Value, Value]]:
        """Wheel -> (value as asked, value at this rung), for the wheels that differ."""
        return {wheel.name: (wheel.values[0], wheel.values[at]) for wheel, at in zip(self.wheels, rung.position, strict=True) if at}


def build(wheels: Sequence[Wheel], *, effective_batch: int, world_size: int = 1, keep_batch: bool = True, accumulation: int = 1) -> Ladder:
    """Enumerates the rungs. ``keep_batch=False``: accumulation stays as asked, and the effective batch goes down with the micro-batch.

    ``accumulation``: as asked, where the micro-batch isn't known. Raises ValueError if a micro-batch does not divide the effective batch
    per device, since such a rung would change it silently.
    """
    micro = next((wheel for wheel in wheels if wheel.name == MICRO_BATCH), None)
    if micro is None:
        raise ValueError(f"a ladder needs the wheel {MICRO_BATCH}")
    each = {
        value: _accumulation(value if keep_batch else micro.values[0], world_size, effective_batch, accumulation) for value in micro.values
    }
    rungs = []
    slowest_first = [range(len(wheel.values)) for wheel in reversed(wheels)]
    for index, turned in enumerate(itertools.product(*slowest_first)):
        position = tuple(reversed(turned))
        values = {wheel.name: wheel.values[at] for wheel, at in zip(wheels, position, strict=True)}
        steps = each[values[MICRO_BATCH]]
        rungs.append(Rung(index=index, values=values, position=position, accumulation=steps, world_size=world_size))
    return Ladder(wheels=tuple(wheels), rungs=tuple(rungs), effective_batch=effective_batch)


def _accumulation(micro_batch: Value, ranks: int, effective_batch: int, unknown: int) -> int:
    """Gradient accumulation steps of a micro-batch; ``unknown`` where it isn't known."""
    if micro_batch is None:
        return unknown
    if not isinstance(micro_batch, int) or micro_batch < 1 or effective_batch % (micro_batch * ranks):
        raise ValueError(f"micro-batch {micro_batch} x world size {ranks} does not divide {effective_batch}")
    return effective_batch // (micro_batch * ranks)


def divisors_down(asked: int, *, of: int, floor: int = 1) -> tuple[int, ...]:
    """The divisors of ``of`` (effective batch per device) from ``asked`` down to ``floor``; ``asked`` must be one of them."""
    if of % asked:
        raise ValueError(f"{asked} does not divide {of}")
    return tuple(size for size in range(asked, floor - 1, -1) if of % size == 0)


def whole_floor(floor: object, *, asked: int, default: int = 1) -> int:
    """A rule's floor (None: ``default``). Raises ValueError, with a sentence for people, where it is no whole number up to ``asked``."""
    least = default if floor is None else floor
    if isinstance(least, bool) or not isinstance(least, int) or not 1 <= least <= asked:
        raise ValueError(f"floor {least!r} is not a whole number from 1 to the asked {asked}")
    return least


def halves_down(asked: object, *, floor: object) -> list[int]:
    """Half of ``asked``, half of that, and so on, down to ``floor`` (None: 1). Raises ValueError for a ``floor`` that isn't possible."""
    if isinstance(asked, bool) or not isinstance(asked, int):
        return []
    least = whole_floor(floor, asked=asked)
    return [asked >> shift for shift in range(1, asked.bit_length()) if asked >> shift >= least]


def sizes_down(asked: int, *, floor: int, grid: int, ratio: float) -> tuple[int, ...]:
    """``asked``, then multiples of ``grid`` that shrink by about ``ratio`` each, down to ``floor`` (itself on the grid).

    The asked size is kept as it is even off the grid: rung 0 is what was asked.
    """
    lowest = -(-floor // grid) * grid
    sizes = [asked]
    while sizes[-1] > lowest:
        wanted = round(sizes[-1] * ratio / grid) * grid
        smaller = -(-sizes[-1] // grid) * grid - grid  # the next grid point below
        sizes.append(max(min(wanted, smaller), lowest))
    return tuple(sizes)
