"""Asks NVML for the visible cards and their memory, or why there is none. Returns plain values.

NVML (package ``nvidia-ml-py``, module ``pynvml``, imported only when asked) sees the whole machine and opens no CUDA
context, so asking costs the card nothing. Nothing is judged here and nothing is changed on a card. Sizes are bytes.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from autofit_launcher.common.card_memory import handle_of, memory
from autofit_launcher.machine import host

ORDER, CARDS = "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"
BY_BUS = "PCI_BUS_ID"


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One card as it is now."""

    index: int
    """NVML's number, which is nvidia-smi's. For people only: CUDA may number cards otherwise."""
    uuid: str
    """The card's one identity."""
    name: str
    total_bytes: int
    """Memory that programs can reach, without the driver's own reserve; a part of what the host has free where they share it."""
    free_bytes: int
    drawn_bytes: int = 0
    """Memory of the driver's graphics processes."""

    def __str__(self) -> str:
        return f"cuda:{self.index} ({self.name})"

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Absence:
    """The reason why there is no card to use, and what to do."""

    found: str
    cure: str
    broken: bool = False
    """There is a card that can't be used now. Taking the CPU instead would surprise the user."""


def opened(nvml: Any = None) -> tuple[Any, Absence | None]:
    """Opens NVML: (NVML, None), or (None, why it isn't available). ``nvml``: None imports pynvml.

    It stays open for as long as this process lives, and opening it again costs nothing: a card that nobody has open may have to be
    initialised anew, for 1 to 3 s (docs.nvidia.com/deploy/driver-persistence).
    """
    nvml = importlib.import_module("pynvml") if nvml is None else nvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return None, _no_driver(nvml, error)
    return nvml, None


Answer = TypeVar("Answer")


def asked(ask: Callable[[Any], Answer], nvml: Any = None) -> Answer | None:
    """Asks NVML, and returns what it answers; None where that doesn't answer."""
    api, absence = opened(nvml)
    if absence is None:
        with suppress(api.NVMLError):
            return ask(api)
    return None


def driver_of(api: Any) -> str:
    """The driver's version; empty where it doesn't tell."""
    return asked(lambda nvml: str(nvml.nvmlSystemGetDriverVersion()), api) or ""


def _card_files() -> bool:
    """Tells whether the kernel shows an NVIDIA card, whatever the libraries say."""
    return any(Path(one).exists() for one in ("/dev/nvidia0", "/proc/driver/nvidia/gpus", "/usr/lib/wsl/lib/libcuda.so.1"))


def _no_driver(nvml: Any, error: Exception) -> Absence:
    container = "start a container with --gpus all, and with utility in NVIDIA_DRIVER_CAPABILITIES where that is set"
    cure = f"See what nvidia-smi says; {container}; or run on the CPU with device.kind=cpu."
    missing = isinstance(error, (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded))
    if missing and not _card_files():
        return Absence(found=f"there is no NVIDIA driver ({error})", cure=cure)
    return Absence(found=f"the NVIDIA driver doesn't answer ({error})", cure=cure, broken=True)


def openable(nvml: Any) -> list[str]:
    """UUIDs of the cards that this process may open, in NVML's order, of a card in MIG mode those of its slices. NVML counts cards that a
    container or a cgroup keeps this process from; CUDA numbers only the others."""
    uuids = []
    for number in range(int(nvml.nvmlDeviceGetCount())):
        with suppress(nvml.NVMLError):  # no permission, lost from the bus, short of power
            uuids += [str(nvml.nvmlDeviceGetUUID(one)) for one in _parts(nvml, nvml.nvmlDeviceGetHandleByIndex(number))]
    return uuids


def _parts(nvml: Any, card: Any) -> list[Any]:
    """The card, or its slices in MIG mode."""
    with suppress(nvml.NVMLError):  # most cards don't know MIG
        if int(nvml.nvmlDeviceGetMigMode(card)[0]) != 1:
            return [card]
        slices = []
        for number in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(card))):
            with suppress(nvml.NVMLError):  # so many there may be
                slices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, number))
        return slices
    return [card]


def _numbered(nvml: Any, environ: Mapping[str, str]) -> list[str]:
    """UUIDs as a launch counts them: as nvidia-smi does; where the environment says nothing, of cards of different kinds the largest
    first."""
    uuids = openable(nvml)
    cards = {one: handle_of(nvml, one) for one in uuids if one.startswith("GPU-")}
    if environ.get(ORDER) == BY_BUS or CARDS in environ or len({str(nvml.nvmlDeviceGetName(one)) for one in cards.values()}) < 2:
        return uuids
    return sorted(uuids, key=lambda one: -memory(nvml, cards[one])[0] if one in cards else 0)


def told_to_cuda(uuids: Sequence[str]) -> dict[str, str]:
    """The variables by which CUDA sees these cards, in this order: numbers, since scripts and DeepSpeed read such (DeepSpeed#5278); UUIDs
    where there are slices, or NVML doesn't answer."""
    there = asked(openable) or []
    numbers = [str(there.index(one)) for one in uuids if one in there and all(other.startswith("GPU-") for other in there)]
    return {ORDER: BY_BUS, CARDS: ",".join(numbers if len(numbers) == len(uuids) else uuids)}


def visible(nvml: Any, environ: Mapping[str, str]) -> tuple[list[str], Absence | None]:
    """Finds (UUIDs of the cards that CUDA_VISIBLE_DEVICES leaves, in its order; or why there is none).

    CUDA's rule: entries count up to the first one that names no card.
    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
    """
    uuids = _numbered(nvml, environ)
    count = len(uuids)
    if count == 0:
        there = int(nvml.nvmlDeviceGetCount())
        cure = "Check nvidia-smi -L, a container's --gpus, and the permissions of /dev/nvidia*; or run with device.kind=cpu."
        return [], Absence(found=f"the NVIDIA driver has no card that can be opened ({there} are there)", cure=cure, broken=there > 0)
    wish = environ.get(CARDS)
    if wish is None:
        return uuids, None
    entries = [entry.strip() for entry in wish.split(",")] if wish.strip() else []
    if chosen := list(itertools.takewhile(bool, (named(entry, uuids) for entry in entries))):
        return chosen, None
    if not entries or entries[0] in ("-1", "NoDevFiles", "none"):
        return [], Absence(
            found=f'CUDA_VISIBLE_DEVICES="{wish}" hides all cards ({count})',
            cure="Unset CUDA_VISIBLE_DEVICES, or set it to 0; or run with device.kind=cpu.",
        )
    found = f'CUDA_VISIBLE_DEVICES="{wish}" begins with {entries[0]!r}, which names no card of {count}'
    cure = f"Use a number from 0 to {count - 1} or a UUID of nvidia-smi -L."
    return [], Absence(found=found, cure=cure, broken=True)


def seen(environ: Mapping[str, str], nvml: Any = None) -> tuple[list[str], Absence | None]:
    """Finds (UUIDs of the cards that programs see in this environment, or why there is none)."""
    api, absence = opened(nvml)
    return visible(api, environ) if absence is None else ([], absence)


def named(entry: str, uuids: Sequence[str]) -> str:
    """The one of ``uuids`` that an entry of CUDA_VISIBLE_DEVICES names: by number, UUID or its unique prefix; empty if it names none."""
    if entry.isdecimal():
        return uuids[int(entry)] if int(entry) < len(uuids) else ""
    matches = [uuid for uuid in uuids if entry.startswith(("GPU-", "MIG-")) and uuid.lower().startswith(entry.lower())]
    return matches[0] if len(matches) == 1 else ""


def read_card(nvml: Any, uuid: str) -> Card:
    """The card of that UUID, as it is now."""
    handle = handle_of(nvml, uuid)
    try:
        total, free = memory(nvml, handle)
    except nvml.NVMLError:  # a GB10 shares the host's
        total = free = int(host.memory()[1] * host.PART)
    name, index = "a slice of a card", 0
    with suppress(nvml.NVMLError):  # of a slice it may know less
        index = int(nvml.nvmlDeviceGetIndex(handle))
        name = str(nvml.nvmlDeviceGetName(handle))
    return Card(index=index, uuid=uuid, name=name, total_bytes=total, free_bytes=free, drawn_bytes=_drawn_bytes(nvml, handle))


def _drawn_bytes(nvml: Any, handle: Any) -> int:
    with suppress(nvml.NVMLError):  # some drivers tell no list
        return sum(int(one.usedGpuMemory or 0) for one in nvml.nvmlDeviceGetGraphicsRunningProcesses(handle))
    return 0
