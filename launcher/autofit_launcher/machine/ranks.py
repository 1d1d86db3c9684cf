"""Chooses the devices of a training that runs on several, by ``device.cards``: a budget for every rank; starts a command once on each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from autofit_launcher.common import interpreter
from autofit_launcher.common.sizes import format_size
from autofit_launcher.errors import BadInput, Fault, refusal
from autofit_launcher.machine import devices, host, nvml
from autofit_launcher.machine.devices import Budget

TORCHRUN = ("-P", "-m", "torch.distributed.run")
"""``-P``: a person's ``queue.py`` in the working folder isn't torchrun's."""
HERE = "--local_addr=localhost"
"""Ranks of one machine meet there. Where a machine's own name doesn't resolve (a container), torchrun would wait for itself forever."""
_refused = partial(refusal, key="device.cards")
Cards = str | int | tuple[int | str, ...] | None
"""``device.cards``: "all", so many, or which (numbers among the visible cards, or UUIDs). None: one device, ``device.index``."""


def budget_of(cards: Cards, kind: str, *, index: int = 0, **options: Any) -> Budget:
    """The budget of a launch; with several ranks, each rank's own is in ``Budget.ranks``. All get what the smallest has: every rank has the
    same batch, and a fit that is kept holds wherever each card has that much.

    ``options``: of ``devices.find``. Raises BadInput with all faults.
    """
    if cards is None:
        return devices.find(kind, index=index, **options)
    if index:
        raise _refused(f"{_said(cards)} is asked beside device.index={index}", "Name all of them: device.cards=[0,1].")
    kind, numbers = _numbers(cards, kind, options := _by_bus(options))
    if kind == "cpu":
        return _on_cpu(len(numbers), options)
    faults, found = list[Fault](), list[Budget]()
    for number in numbers:
        try:
            found.append(devices.find(kind, index=number, **options))
        except BadInput as refused:
            faults += [fault for fault in refused.faults if fault not in faults]
    if len({one.name for one in found}) > 1:
        kinds = "; ".join(f"{one.index}: {one.name}, {format_size(one.total_bytes)}" for one in found)
        faults += _refused(f"cards of different kinds ({kinds})", "Every card gets the same batch: name cards of one kind.").faults
    if faults:
        raise BadInput(faults)
    return _together(found)


def world_size(cards: Cards, kind: str) -> int:
    """Ranks that ``device.cards`` means on this machine."""
    if cards is None:
        return 1
    return max(1, cards) if isinstance(cards, int) else len(cards) if isinstance(cards, tuple) else len(_numbers(cards, kind, {})[1])


def identities(cards: Cards, kind: str, *, index: int = 0) -> list[str]:
    """Identities of the devices that ``budget_of`` would choose (``devices.identity``), each once, in the order of turns."""
    if cards is None:
        return [devices.identity(kind, index=index)]
    try:
        kind, numbers = _numbers(cards, kind, options := _by_bus({}))
    except BadInput:
        return [""]
    return sorted({devices.identity(kind, index=number, **options) for number in numbers} if kind == "cuda" else {"cpu"})


def _by_bus(options: dict[str, Any]) -> dict[str, Any]:
    """The options, by which several cards are counted as nvidia-smi does: so they are named in all that is shown."""
    return {**options, "environ": {**(options.get("environ") or os.environ), nvml.ORDER: nvml.BY_BUS}}


def _together(found: Sequence[Budget]) -> Budget:
    least = min(found, key=lambda one: one.cap_bytes)
    if len(found) == 1:
        return least
    notes = tuple(dict.fromkeys(note for one in found for note in one.notes))
    alike = {name: getattr(least, name) for name in ("budget_bytes", "cap_bytes", "ceiling_bytes")}
    return replace(least, ranks=tuple(replace(one, **alike) for one in found), notes=notes)


def _numbers(cards: str | int | tuple[int | str, ...], kind: str, options: dict[str, Any]) -> tuple[str, list[int]]:
    """Resolves ``cards`` to (cuda or cpu, numbers of the cards among those that are visible; of a CPU its ranks)."""
    uuids, absence = ([], None) if kind == "cpu" else nvml.seen(options.get("environ") or os.environ, options.get("nvml"))
    if kind == "cpu" or (kind == "auto" and absence is not None and not absence.broken):
        if isinstance(cards, tuple):
            cure = "device.cards=null trains in one process; a number, as device.cards=2, in so many, where the trainer can."
            raise _refused(f"{_said(cards)} are asked on the cpu, which has no cards", cure)
        return "cpu", list(range(cards if isinstance(cards, int) else 1))
    if absence is not None:
        return "cuda", [0]  # ``devices.find`` says why there is none
    return "cuda", _among(uuids, cards)


def _among(uuids: Sequence[str], cards: str | int | tuple[int | str, ...]) -> list[int]:
    """Numbers in ``uuids``. Raises BadInput for one that isn't there, and for one that is named twice."""
    asked = cards if isinstance(cards, tuple) else range(cards if isinstance(cards, int) else len(uuids))
    named = [nvml.named(str(one), uuids) for one in asked]
    if "" in named:
        cure = f"Use numbers from 0 to {len(uuids) - 1}, or UUIDs of nvidia-smi -L; device.cards=all takes the {len(uuids)}."
        raise _refused(f"{_said(cards)} is asked, but of cards {len(uuids)} can be seen", cure)
    if len(set(named)) < len(named):
        raise _refused(f"{_said(cards)} names a card twice", "Each rank has a card of its own.")
    return [uuids.index(one) for one in named]


def _on_cpu(count: int, options: dict[str, Any]) -> Budget:
    """Every rank gets as much as ``device.memory`` says, as each of several cards would; without it an equal part of what is available."""
    whole = devices.find("cpu", **options)
    if count == 1:
        return whole
    asked = options.get("memory_bytes")
    if asked and asked * count > whole.free_bytes:
        found = f"{format_size(asked)} for each of {count} processes is asked, but {format_size(whole.free_bytes)} is available"
        raise refusal(found, f"Ask for {format_size(whole.free_bytes // count)} or less.", key="device.memory")
    one = devices.find("cpu", **{**options, "memory_bytes": asked or whole.budget_bytes // count})
    ceiling = max(one.budget_bytes, min(one.ceiling_bytes, int(whole.free_bytes * host.PART) // count))
    note = f"{count} processes on this CPU, each with {format_size(one.budget_bytes)}, play a card each"
    return _together([replace(one, ceiling_bytes=ceiling, notes=(note, *whole.notes))] * count)


def _said(cards: Cards) -> str:
    return ",".join(map(str, cards)) if isinstance(cards, tuple) else str(cards)


def launched(command: Sequence[str], *, devices: int = 1) -> tuple[str, ...]:
    """The words that start ``command`` on so many devices of this machine."""
    if devices == 1:
        return tuple(command)
    python, program = _program(command)
    return (python, *TORCHRUN, "--nproc_per_node", str(devices), HERE, *program)


def _program(command: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Splits a command into (the interpreter that runs torchrun, the program in torchrun's terms)."""
    first, *rest = command
    is_python = os.path.basename(first).startswith("python")
    if is_python and rest and (rest[0] == "-m" or not rest[0].startswith("-")):
        return first, tuple(rest)
    return first if is_python else interpreter.of(first), ("--no-python", *command)
