"""Asks NVML for the visible cards, their memory and who holds it, or why there is none. Returns plain values.

NVML (package ``nvidia-ml-py``, module ``pynvml``, imported only when asked) sees the whole machine and opens no CUDA
context, so asking costs the card nothing. Nothing is judged here and nothing is changed on a card. Sizes are bytes.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from autofit_launcher.common.card_memory import handle_of, memory
from autofit_launcher.common.sizes import format_size
from autofit_launcher.machine import host, process

ORDER, CARDS = "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"
BY_BUS = "PCI_BUS_ID"


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """Another process that uses the card."""

    pid: int
    name: str
    """Name of its program; empty if it can't be seen from here (a container, another pid namespace)."""
    user: str
    used_bytes: int
    """0 where the driver doesn't say (WSL, Windows)."""
    draws: bool = False
    """It is among the driver's graphics processes."""
    seen: bool = False
    """The process of that number here has a card open: the driver means this one, and we might end it."""

    def __str__(self) -> str:
        used = format_size(self.used_bytes) if self.used_bytes else "an amount the driver doesn't tell"
        if not self.name:
            return f"a process this container can't see (pid {self.pid} on the host, {used})"
        return f"{self.name} (pid {self.pid}, user {self.user or 'unknown'}, {used})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One card as it is now."""

    index: int
    """NVML's number, which is nvidia-smi's. For people only: CUDA may number cards otherwise."""
    uuid: str
    """The card's one identity."""
    name: str
    mode: int
    """NVML's compute mode: 0 for all, 2 for nobody, 1 and 3 for one process at a time."""
    total_bytes: int
    """Memory that programs can reach, without the driver's own reserve; a part of what the host has free where they share it."""
    free_bytes: int
    neighbours: tuple[Neighbour, ...]
    """Largest first."""

    def __str__(self) -> str:
        return f"cuda:{self.index} ({self.name})"

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes

    @property
    def unattributed_bytes(self) -> int:
        """Memory in use, but by none of ``neighbours`` as far as the driver tells."""
        return max(0, self.used_bytes - sum(neighbour.used_bytes for neighbour in self.neighbours))


@dataclass(frozen=True, kw_only=True, slots=True)
class Absence:
    """The reason why there is no card to use, and what to do."""

    found: str
    cure: str
    broken: bool = False
    """There is a card that can't be used now. Taking the CPU instead would surprise the user."""


_OPEN: list[Any] = []


def opened(nvml: Any = None) -> tuple[Any, Absence | None]:
    """Opens NVML: (NVML, None), or (None, why it isn't available). ``nvml``: None imports pynvml.

    It stays open for as long as this process lives: a card that nobody has open may have to be initialised anew, for 1 to 3 s
    (docs.nvidia.com/deploy/driver-persistence).
    """
    try:
        nvml = importlib.import_module("pynvml") if nvml is None else nvml
    except ImportError:
        found = "the Python package nvidia-ml-py, which asks the driver, is not installed"
        return None, Absence(found=found, cure="Install it into this environment: pip install nvidia-ml-py.", broken=_card_files())
    if not any(nvml is one for one in _OPEN):
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            return None, _no_driver(nvml, error)
        _OPEN.append(nvml)
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


_IN_CUDAS_ORDER = """
import ctypes, os, uuid
os.environ.pop("CUDA_VISIBLE_DEVICES", "")
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count))
for number in range(count.value):
    card, found = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    cuda.cuDeviceGet(ctypes.byref(card), number), cuda.cuDeviceGetUuid(found, card)
    print(f"GPU-{uuid.UUID(bytes=bytes(found))}")
"""


def _numbered(nvml: Any, environ: Mapping[str, str]) -> list[str]:
    """UUIDs as CUDA numbers them: cards of different kinds the fastest first, unless the environment says otherwise. Which that is it alone
    knows."""
    uuids = openable(nvml)
    kinds = {str(nvml.nvmlDeviceGetName(handle_of(nvml, one))) for one in uuids if one.startswith("GPU-")}
    return uuids if len(kinds) < 2 or environ.get(ORDER) == BY_BUS else _fastest_first(tuple(uuids))


@functools.cache
def _fastest_first(uuids: tuple[str, ...]) -> list[str]:
    """Asks CUDA, in a process of its own, which makes no context; the order of the bus where it doesn't know them all."""
    _, said = process.output_of((sys.executable, "-c", _IN_CUDAS_ORDER))
    return said.split() if sorted(said.split()) == sorted(uuids) else list(uuids)


def told_to_cuda(uuids: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which CUDA sees these cards, in this order: the person's own where they say just that; else numbers, since scripts
    and DeepSpeed read such (DeepSpeed#5278); UUIDs where there are slices, or NVML doesn't answer."""

    def said(nvml: Any) -> dict[str, str]:
        if CARDS in environ and visible(nvml, environ)[0] == list(uuids):
            return {name: environ[name] for name in (ORDER, CARDS) if name in environ}
        there = openable(nvml)
        numbers = [there.index(one) for one in uuids if one in there and all(other.startswith("GPU-") for other in there)]
        return {ORDER: BY_BUS, CARDS: ",".join(map(str, numbers if len(numbers) == len(uuids) else uuids))}

    return asked(said) or {ORDER: BY_BUS, CARDS: ",".join(uuids)}


def visible(nvml: Any, environ: Mapping[str, str]) -> tuple[list[str], Absence | None]:
    """Finds (UUIDs of the cards that CUDA_VISIBLE_DEVICES leaves, in its order; or why there is none).

    CUDA's rule: entries count up to the first one that names no card.
    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
    """
    uuids = _numbered(nvml, environ)
    count = len(uuids)
    if count == 0:
        there = int(nvml.nvmlDeviceGetCount())
        found = f"none of the cards can be opened ({there})" if there else "the NVIDIA driver works but there is no card (no device)"
        cure = "Check nvidia-smi -L, a container's --gpus, and the permissions of /dev/nvidia*; or run with device.kind=cpu."
        return [], Absence(found=found, cure=cure, broken=there > 0)
    wish = environ.get(CARDS)
    if wish is None:
        return uuids, None
    entries = [entry.strip() for entry in wish.split(",")] if wish.strip() else []
    if named := list(itertools.takewhile(bool, (_named(entry, uuids) for entry in entries))):
        return named, None
    if not entries or entries[0] in ("-1", "NoDevFiles", "none"):
        return [], Absence(
            found=f'CUDA_VISIBLE_DEVICES="{wish}" hides {"the card" if count == 1 else f"all {count} cards"}',
            cure="Unset CUDA_VISIBLE_DEVICES, or set it to 0; or run with device.kind=cpu.",
        )
    found = f'CUDA_VISIBLE_DEVICES="{wish}" begins with {entries[0]!r}, which names no card of {count}'
    cure = f"Use a number from 0 to {count - 1} or a UUID of nvidia-smi -L."
    return [], Absence(found=found, cure=cure, broken=True)


def seen(environ: Mapping[str, str], nvml: Any = None) -> tuple[list[str], Absence | None]:
    """Finds (UUIDs of the cards that programs see in this environment, or why there is none)."""
    api, absence = opened(nvml)
    return visible(api, environ) if absence is None else ([], absence)


def _named(entry: str, uuids: Sequence[str]) -> str:
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
    name, index, mode = "a slice of a card", 0, 0
    with suppress(nvml.NVMLError):  # of a slice it may know less
        index = int(nvml.nvmlDeviceGetIndex(handle))
        name = str(nvml.nvmlDeviceGetName(handle))
        mode = int(nvml.nvmlDeviceGetComputeMode(handle))
    return Card(
        index=index, uuid=uuid, name=name, mode=mode, total_bytes=total,
        free_bytes=free, neighbours=tuple(sorted(_neighbours(nvml, handle), key=lambda neighbour: (-neighbour.used_bytes, neighbour.pid))),
    )  # fmt: skip


def _neighbours(nvml: Any, handle: Any) -> list[Neighbour]:
    """Compute and graphics processes. One can be in both lists with the same memory; some drivers tell no list."""
    used, draw = dict[int, int](), set[int]()
    for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        with suppress(nvml.NVMLError):
            for process in ask(handle):
                used[int(process.pid)] = max(used.get(int(process.pid), 0), int(process.usedGpuMemory or 0))
                draw |= {int(process.pid)} if ask == nvml.nvmlDeviceGetGraphicsRunningProcesses else set()
    return [_neighbour(pid, used_bytes, draws=pid in draw) for pid, used_bytes in used.items()]


def _neighbour(pid: int, used_bytes: int, *, draws: bool) -> Neighbour:
    """Describes a process. In a container the driver's numbers are the host's: one here that has no card open is another one."""
    name = user = ""
    seen = has_card_open(pid)
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        with suppress(psutil.AccessDenied):
            name = process.name() if seen is not False else ""
        with suppress(psutil.AccessDenied, KeyError):
            user = process.username()
        name = name or ("unnamed process" if seen is not False else "")
    return Neighbour(pid=pid, name=name, user=user, used_bytes=used_bytes, draws=draws, seen=bool(seen) and pid > 1)


def has_card_open(pid: int) -> bool | None:
    """Tells whether a process has a card open; None where that may not be looked at."""
    with suppress(OSError):
        return any(os.path.realpath(one).startswith(("/dev/nvidia", "/dev/dxg")) for one in Path(f"/proc/{pid}/fd").iterdir())
    return None
