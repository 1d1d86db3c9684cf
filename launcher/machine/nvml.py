"""Asks NVML for the visible cards, their memory and who holds it, or why there is none. Returns plain values.

NVML (package ``nvidia-ml-py``, module ``pynvml``, imported only when asked) sees the whole machine and opens no CUDA
context, so asking costs the card nothing. Nothing is judged here and nothing is changed on a card. Sizes are bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from launcher.shared.card_memory import handle_of, memory
from launcher.shared.sizes import format_size

VANISH_WAIT_S = 0.3
"""Seconds until a process that has just ended has disappeared from NVML's list, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """Another process that uses the card."""

    pid: int
    name: str
    """Name of its program; empty if it can't be seen from here (a container, another pid namespace)."""
    user: str
    used_bytes: int
    """0 where the driver doesn't say (WSL, Windows)."""

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
    mig: bool
    total_bytes: int
    """Memory that programs can reach, without the driver's own reserve. 0 where the driver doesn't tell (memory of the host's)."""
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
    """Why there is no card to use."""

    found: str
    cure: str
    broken: bool = False
    """There is a card that can't be used now. Taking the CPU instead would surprise the user."""


@contextmanager
def opened(nvml: Any = None) -> Iterator[tuple[Any, Absence | None]]:
    """(NVML, None), initialised and shut down at the end; or (None, why it isn't available). ``nvml``: None imports pynvml."""
    if nvml is None:
        try:
            import pynvml
        except ImportError:
            yield (
                None,
                Absence(
                    found="the Python package nvidia-ml-py, which asks the driver, is not installed",
                    cure="Install it into this environment: pip install nvidia-ml-py.",
                    broken=_card_files(),
                ),
            )
            return
        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        yield None, _no_driver(nvml, error)
        return
    try:
        yield nvml, None
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


Answer = TypeVar("Answer")


def told(ask: Callable[[Any], Answer], nvml: Any = None) -> Answer | None:
    """What ``ask`` gets of NVML; None where that doesn't answer."""
    with opened(nvml) as (api, absence):
        if absence is None:
            with suppress(api.NVMLError):
                return ask(api)
    return None


def driver_of(api: Any) -> str:
    """The driver's version; empty where it doesn't tell."""
    with suppress(api.NVMLError):
        return str(api.nvmlSystemGetDriverVersion())
    return ""


def _card_files() -> bool:
    """Tells whether the kernel shows an NVIDIA card, whatever the libraries say."""
    return Path("/dev/nvidia0").exists() or Path("/proc/driver/nvidia/gpus").exists()


def _no_driver(nvml: Any, error: Exception) -> Absence:
    cure = "See what nvidia-smi says; start a container with --gpus all; or run on the CPU with device.kind=cpu."
    missing = isinstance(error, (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded))
    if missing and not _card_files():
        return Absence(found=f"there is no NVIDIA driver ({error})", cure=cure)
    return Absence(found=f"the NVIDIA driver doesn't answer ({error})", cure=cure, broken=True)


def openable(nvml: Any) -> list[str]:
    """UUIDs of the cards that this process may open, in NVML's order. It counts cards that a container or a cgroup keeps this process from;
    CUDA numbers only the others."""
    uuids = []
    for number in range(int(nvml.nvmlDeviceGetCount())):
        with suppress(nvml.NVMLError):  # no permission, lost from the bus, short of power
            uuids.append(str(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(number))))
    return uuids


def visible(nvml: Any, environ: Mapping[str, str]) -> tuple[list[str], Absence | None]:
    """(UUIDs of the cards that CUDA_VISIBLE_DEVICES leaves, in its order; or why there is none)

    CUDA's rule: entries count up to the first one that names no card.
    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
    """
    uuids = openable(nvml)
    count = len(uuids)
    if count == 0:
        there = int(nvml.nvmlDeviceGetCount())
        found = f"none of the cards can be opened ({there})" if there else "the NVIDIA driver works but there is no card (no device)"
        cure = "Check nvidia-smi -L, a container's --gpus, and the permissions of /dev/nvidia*; or run with device.kind=cpu."
        return [], Absence(found=found, cure=cure, broken=there > 0)
    wish = environ.get("CUDA_VISIBLE_DEVICES")
    if wish is None:
        return uuids, None
    entries = [entry.strip() for entry in wish.split(",")] if wish.strip() else []
    seen: list[str] = []
    for entry in entries:
        number = _named(entry, uuids)
        if number is None:
            break
        seen.append(uuids[number])
    if seen:
        return seen, None
    if not entries or entries[0] in ("-1", "NoDevFiles", "none"):
        return [], Absence(
            found=f'CUDA_VISIBLE_DEVICES="{wish}" hides {"the card" if count == 1 else f"all {count} cards"}',
            cure="Unset CUDA_VISIBLE_DEVICES, or set it to 0; or run with device.kind=cpu.",
        )
    found = f'CUDA_VISIBLE_DEVICES="{wish}" begins with {entries[0]!r}, which names no whole card of {count}'
    cure = f"Use a number from 0 to {count - 1} or a UUID of nvidia-smi -L; device.memory=10GiB emulates a MIG slice of that size."
    return [], Absence(found=found, cure=cure, broken=True)


def _named(entry: str, uuids: Sequence[str]) -> int | None:
    """Index in ``uuids`` of one entry of CUDA_VISIBLE_DEVICES: a number, a UUID or its unique prefix; None if it names none."""
    if entry.isdecimal():
        return int(entry) if int(entry) < len(uuids) else None
    if not entry.startswith("GPU-"):
        return None
    matches = [number for number, uuid in enumerate(uuids) if uuid.lower().startswith(entry.lower())]
    return matches[0] if len(matches) == 1 else None


def read_card(nvml: Any, uuid: str) -> Card:
    """The card of that UUID, as it is now.

    A process that NVML names and the system doesn't know is asked for once more: one that ended in between is gone from
    NVML's list then, and its memory is free; one in another namespace stays.
    """
    handle = handle_of(nvml, uuid)
    neighbours = _neighbours(nvml, handle)
    if any(not neighbour.name for neighbour in neighbours):
        time.sleep(VANISH_WAIT_S)
        neighbours = _neighbours(nvml, handle)
    total, free = memory(nvml, handle)
    mig = False
    with suppress(nvml.NVMLError):  # most cards don't know MIG
        mig = int(nvml.nvmlDeviceGetMigMode(handle)[0]) == 1
    return Card(
        index=int(nvml.nvmlDeviceGetIndex(handle)), uuid=uuid, name=str(nvml.nvmlDeviceGetName(handle)), mig=mig, total_bytes=total,
        free_bytes=free, neighbours=tuple(sorted(neighbours, key=lambda neighbour: (-neighbour.used_bytes, neighbour.pid))),
    )  # fmt: skip


def _neighbours(nvml: Any, handle: Any) -> list[Neighbour]:
    """Compute and graphics processes. One can be in both lists with the same memory; some drivers tell no list."""
    used: dict[int, int] = {}
    for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        with suppress(nvml.NVMLError):
            for process in ask(handle):
                used[int(process.pid)] = max(used.get(int(process.pid), 0), int(process.usedGpuMemory or 0))
    return [_neighbour(pid, used_bytes) for pid, used_bytes in used.items()]


def _neighbour(pid: int, used_bytes: int) -> Neighbour:
    try:
        process = psutil.Process(pid)
        name = user = ""
        with suppress(psutil.AccessDenied):
            name = process.name()
        with suppress(psutil.AccessDenied, KeyError):
            user = process.username()
    except psutil.NoSuchProcess:
        return Neighbour(pid=pid, name="", user="", used_bytes=used_bytes)
    return Neighbour(pid=pid, name=name or "unnamed process", user=user, used_bytes=used_bytes)
