"""Looks this machine over for what would stop a launch, or end a run on its way. Only reads; imports no torch.

Every line says what was found, what is needed, and what to do where that isn't there.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofit_launcher import paths
from autofit_launcher.common import interpreter
from autofit_launcher.common.sizes import GIB, format_size
from autofit_launcher.machine import devices, host
from autofit_launcher.machine import nvml as nvml_module
from autofit_launcher.machine.nvml import Card
from autofit_launcher.machine.packages import torch_of

LEAST_SHARED_BYTES = GIB
"""Room that /dev/shm should have: a container's default of 64 MiB ends loader workers with a bus error."""
LEAST_DISK_BYTES = 2 * GIB
"""Disk for two checkpoints of a middling model and its optimizer."""
LEAST_HOST_BYTES = 2 * GIB
"""Host memory for a trainer's imports, its workers, and one checkpoint on its way to the disk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was looked at."""

    subject: str
    found: str
    needed: str = ""
    cure: str = ""
    """Advice; empty where nothing is to be done."""
    stops: bool = False
    """The finding would stop a launch."""


def checks(environ: Mapping[str, str], *, folder: Path, nvml: Any = None) -> list[Check]:
    """Everything, in the order in which it is told. ``folder``: where runs would be kept; ``nvml``: None imports pynvml."""
    return [_system(), *_cards(environ, nvml), _memory(), _shared_memory(), _runs(folder)]


def _system() -> Check:
    found = f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {host.cpu_name()}"
    if platform.system() == "Linux":
        return Check(subject="system", found=found)
    return Check(subject="system", found=found, needed="Linux, or WSL", cure="Run autofit on Linux, or in WSL.", stops=True)


def _cards(environ: Mapping[str, str], nvml: Any) -> Iterator[Check]:
    uuids, absence = nvml_module.seen(environ, nvml)
    if absence is not None:
        yield Check(subject="card", found=absence.found, cure=absence.cure if absence.broken else "", stops=absence.broken)
        yield from _torch(None, on_card=False)
        return
    api, _ = nvml_module.opened(nvml)
    driver = nvml_module.asked(lambda nvml: int(nvml.nvmlSystemGetCudaDriverVersion_v2()) // 1000, api)
    yield Check(subject="driver", found=nvml_module.driver_of(api) + (f", for CUDA {driver}" if driver else ""))
    cards = [nvml_module.read_card(api, uuid) for uuid in uuids]
    yield from map(_card, cards)
    if len({card.name for card in cards}) > 1:
        yield Check(subject="cards", found=f"of different kinds; a launch takes {cards[0]}; device.index=1 is the next")
    yield from _torch(driver, on_card=True)
    yield from (
        Check(subject="allocator", found=f"{fault.key}: {fault.found}", needed="one that keeps to a cap", cure=fault.cure, stops=True)
        for fault in devices.allocator_faults(environ)
    )


def _card(card: Card) -> Check:
    found = f"{card.name}, {format_size(card.free_bytes)} of {format_size(card.total_bytes)} free"
    subject = f"cuda:{card.index}"
    if faults := devices.card_faults(card):
        return Check(subject=subject, found=f"{found}; {faults[0].found}", needed="a card of its own", cure=faults[0].cure, stops=True)
    return Check(subject=subject, found="; ".join((found, *devices.card_notes(card))))


def _torch(driver: int | None, *, on_card: bool) -> Iterator[Check]:
    """PyTorch's build, which a card needs to be for CUDA, and for none that the ``driver`` doesn't know."""
    torch = torch_of(python := interpreter.persons())
    if torch is None:
        cure = f"{python} -m pip install torch, or activate the environment that has it."
        yield Check(subject="torch", found=f"not installed for {python}", cure=cure)
        return
    needed = cure = ""
    if on_card and not torch.cuda:
        needed, cure = "a build with CUDA", "Install a CUDA build (pip's usual one), or run with device=cpu."
    elif driver is not None and int(torch.cuda.partition(".")[0] or 0) > driver:
        needed = f"CUDA {driver}, which the driver knows"
        cure = f"Renew the driver, or install a torch that is built for CUDA {driver}."
    found = f"{torch.version}, {f'built for CUDA {torch.cuda}' if torch.cuda else 'built without CUDA'}, {python}"
    yield Check(subject="torch", found=found, needed=needed, cure=cure, stops=bool(needed))


def _memory() -> Check:
    total, free, machine = host.memory()
    limit = f", by the limit of a container, control group or SLURM job; the machine has {format_size(machine)}" if total < machine else ""
    cure = "Close other programs, or raise the container's limit." if free < LEAST_HOST_BYTES else ""
    return Check(subject="host memory", found=f"{format_size(free)} of {format_size(total)} free{limit}", cure=cure)


def _shared_memory() -> Check:
    free = host.shared_memory_free() or 0
    cure = "" if free >= LEAST_SHARED_BYTES else "Enlarge it (docker run --shm-size=8g), or train with workers=0."
    return Check(subject="/dev/shm", found=f"{format_size(free)} free for the batches of loader workers", cure=cure)


def _runs(folder: Path) -> Check:
    if (error := host.not_writable(folder)) is not None:
        cure, found = "Make it writable, or name another folder by run.root.", f"{paths.short(folder)} can't be written: {error.strerror}"
        return Check(subject="runs", found=found, needed="a folder that can be written", cure=cure, stops=True)
    free = host.disk_free(folder)
    cure = "Make room on that disk, or name another folder." if free < LEAST_DISK_BYTES else ""
    return Check(subject="runs", found=f"{paths.short(folder)}, {format_size(free)} free", cure=cure)
