"""Stand-ins for a card: a driver with NVML's functions, and torch.cuda over it. What they are told to hold, they count; nothing is real.

They show that autofit reads, adds and concludes rightly. What a real card answers, only a real card shows (``make gpu-check``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

GIB, MIB = 2**30, 2**20


@dataclass
class FakeCard:
    total: int = 16 * GIB
    reserved: int = 256 * MIB
    used: int = 0
    name: str = "NVIDIA GeForce RTX 4080 SUPER"
    uuid: str = "GPU-11111111-aaaa-bbbb-cccc-000000000000"
    slices: list[FakeCard] | None = None
    """In MIG mode; None: it isn't, or knows none."""
    processes: list[list[tuple[int, int | None]]] = field(default_factory=lambda: [[]])
    """One list of (pid, bytes) for each time it is asked; the last one stays."""
    graphics: list[tuple[int, int | None]] = field(default_factory=list)
    version_2: bool = True
    locked: bool = False
    """This process may not open it."""


class FakeNvml:
    """A driver with pynvml's functions; constants and errors are pynvml's own."""

    def __init__(self, *cards: FakeCard, error: int | None = None) -> None:
        self.cards = cards
        self.error = error
        self.cuda = 13000

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and callable(getattr(pynvml, name, None)):
            raise AttributeError(f"the fake has no {name}")
        return getattr(pynvml, name)

    def nvmlInit(self) -> None:
        if self.error is not None:
            raise pynvml.NVMLError(self.error)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:
        if self.cards[index].locked:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeCard:
        return next(card for one in self.cards for card in (one, *(one.slices or ())) if card.uuid == uuid)

    def nvmlDeviceGetIndex(self, card: FakeCard) -> int:
        return next(found.index(card) for found in (self.cards, *(one.slices or () for one in self.cards)) if card in found)

    def nvmlDeviceGetMaxMigDeviceCount(self, _: FakeCard) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: FakeCard, index: int) -> FakeCard:
        if index >= len(card.slices or ()):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return (card.slices or [])[index]

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return self.cuda

    def nvmlSystemGetDriverVersion(self) -> str:
        return "600.00"

    def nvmlDeviceGetName(self, card: FakeCard) -> str:
        if not card.name:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return card.name

    def nvmlDeviceGetUUID(self, card: FakeCard) -> str:
        return card.uuid

    def nvmlDeviceGetMigMode(self, card: FakeCard) -> list[int]:
        if card.slices is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [1, 1]

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard, version: int | None = None) -> SimpleNamespace:
        if card.total == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        free = card.total - card.reserved - card.used
        if version is None:
            return SimpleNamespace(total=card.total, free=free, used=card.used + card.reserved)
        if not card.version_2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return SimpleNamespace(total=card.total, reserved=card.reserved, free=free, used=card.used)

    def nvmlDeviceGetComputeRunningProcesses(self, card: FakeCard) -> list[SimpleNamespace]:
        now = card.processes.pop(0) if len(card.processes) > 1 else card.processes[0]
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in now]

    def nvmlDeviceGetGraphicsRunningProcesses(self, card: FakeCard) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in card.graphics]


class OutOfMemoryError(RuntimeError):
    """torch's, by name."""


class FakeCuda:
    """torch.cuda on one card: a context, kernels loaded late, and a caching allocator with a limit."""

    OutOfMemoryError = OutOfMemoryError

    def __init__(self, card: FakeCard, *, context: int = 500 * MIB, uuid: str | None = None) -> None:
        self.card, self.context = card, context
        self.uuid = (uuid or card.uuid).removeprefix("GPU-")
        self.opened = False
        self.fraction = 1.0
        self.allocated = self.reserved = self.most_allocated = self.most_reserved = 0
        self.stats = {"num_ooms": 0, "num_alloc_retries": 0}
        self.limits: list[int] = []

    @property
    def total(self) -> int:
        return self.card.total - self.card.reserved

    # -- what autofit calls

    def is_available(self) -> bool:
        return True

    def init(self) -> None:
        if not self.opened:
            self.opened = True
            self.card.used += self.context

    def synchronize(self, _: int | None = None) -> None:
        self.init()

    def mem_get_info(self, _: int | None = None) -> tuple[int, int]:
        self.init()
        return self.total - self.card.used, self.total

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def get_device_properties(self, _: int) -> SimpleNamespace:
        return SimpleNamespace(uuid=self.uuid, total_memory=self.total, name=self.card.name)

    def set_per_process_memory_fraction(self, fraction: float, _: int | None = None) -> None:
        self.fraction = fraction
        self.limits.append(round(fraction * self.total))

    def memory_reserved(self, _: int | None = None) -> int:
        return self.reserved

    def memory_allocated(self, _: int | None = None) -> int:
        return self.allocated

    def max_memory_allocated(self, _: int | None = None) -> int:
        return self.most_allocated

    def max_memory_reserved(self, _: int | None = None) -> int:
        return self.most_reserved

    def reset_peak_memory_stats(self, _: int | None = None) -> None:
        self.most_allocated, self.most_reserved = self.allocated, self.reserved

    def memory_stats(self, _: int | None = None) -> dict[str, int]:
        return dict(self.stats)

    def empty_cache(self) -> None:
        self.card.used -= self.reserved - self.allocated
        self.reserved = self.allocated

    # -- what a trainer does

    def allocate(self, size: int) -> None:
        self.init()
        if not self._room(size):
            self.stats["num_alloc_retries"] += 1
            self.empty_cache()
            if not self._room(size):
                self.stats["num_ooms"] += 1
                raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / GIB:.2f} GiB. GPU 0 has a total capacity")
        grown = max(0, self.allocated + size - self.reserved)
        self.card.used += grown
        self.reserved += grown
        self.allocated += size
        self.most_allocated = max(self.most_allocated, self.allocated)
        self.most_reserved = max(self.most_reserved, self.reserved)

    def _room(self, size: int) -> bool:
        grown = max(0, self.allocated + size - self.reserved)
        return self.reserved + grown <= self.fraction * self.total and grown <= self.total - self.card.used

    def free(self, size: int) -> None:
        """Back to the cache."""
        self.allocated -= size

    def load_kernels(self, size: int) -> None:
        self.card.used += size


class FakeTorch:
    """As much of torch as a meter touches."""

    __version__ = "2.15.0"

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda
        self.backends = SimpleNamespace(cudnn=SimpleNamespace(benchmark=False))
