"""Limits the memory that this process can use on its device, in bytes, and returns what was measured for that.

CPU: ``RLIMIT_DATA`` at what the data segments hold now plus the cap, so that allocations fail as real ones do: PyTorch's clean
``DefaultCPUAllocator`` error. Call it after the imports and before anything is built, since libraries count as base.
CUDA: the caching allocator's per-process fraction; what context and libraries hold outside the allocator is subtracted first, and again
whenever it is found to have grown (``tighten``).
No tensor is made here, save for one on the CPU that starts PyTorch's threads.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ..common import card_memory, procfs
from ..common.files import replace
from ..common.orders import HELD, Orders
from ..common.sizes import format_size
from .driver import VisibleCard

if sys.platform == "linux":
    import resource


class BudgetError(RuntimeError):
    """The budget cannot be made real on this machine, or is too small for the device's own needs. Not the trainer's doing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The limits that a trial's process really got; the fields are ``TrialReport``'s."""

    cap_bytes: int
    ceiling_bytes: int
    base_bytes: int


def take(orders: Orders) -> Taken:
    """Limits this process to the orders' ceiling, or to what others have left it of its card since the launcher looked."""
    ceiling = max(orders.ceiling_bytes, orders.cap_bytes)
    if ceiling <= 0:
        raise BudgetError(f"a budget of {ceiling} bytes allows nothing")
    base = _limit_cuda(orders, ceiling) if orders.device == "cuda" else _limit_cpu(ceiling)
    return Taken(cap_bytes=orders.cap_bytes, ceiling_bytes=ceiling, base_bytes=base)


def lift() -> None:
    """Lifts the CPU limit again, so that a failure under it can be written down. Does nothing where none was set."""
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _start_libraries() -> None:
    """Has PyTorch and NumPy take now what they take once for themselves, so that it counts as base, and not as the run's memory.

    PyTorch: its own threads; under the limit one that cannot be started ends the process without any exception: libgomp calls exit(1).
    NumPy: OpenBLAS's buffer of 32 MiB, which comes with the first product of matrices, a figure's say.
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None:
        torch.zeros(1 << 20).add_(1)
    if numpy is not None:
        numpy.linalg.inv(numpy.eye(2))


def _limit_cpu(cap_bytes: int) -> int:
    """Returns the base. In a full run it is left where the launcher looks for it, so that it can tell the run's need from outside."""
    if sys.platform != "linux":
        raise BudgetError(f"a CPU memory budget needs Linux (RLIMIT_DATA and /proc); this is {sys.platform}. Use a CUDA device, or WSL")
    _start_libraries()
    base = procfs.data_bytes()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY and base + cap_bytes > hard:
        raise BudgetError(
            f"the system lets this process have {hard} bytes of data (ulimit -d); base {base} and budget {cap_bytes} need more"
        )
    resource.setrlimit(resource.RLIMIT_DATA, (base + cap_bytes, hard))
    if folder := os.environ.get(HELD):
        replace(Path(folder) / f"{os.getpid()}.json", json.dumps({"base_bytes": base}))
    return base


def _limit_cuda(orders: Orders, cap_bytes: int) -> int:
    """Returns the bytes held outside the allocator. Other processes of the same command may be on the card already."""
    import torch

    if not torch.cuda.is_available():
        raise BudgetError(
            "device 'cuda' was asked for, but PyTorch sees no CUDA device (torch.cuda.is_available() is False). `autofit doctor` says "
            "whether it is built for CUDA, and whether the driver is too old for it"
        )
    if not orders.searches:
        without_search()
    card = VisibleCard(orders.device_uuid, idle_free_bytes=orders.idle_free_bytes)
    torch.cuda.init()
    torch.cuda.synchronize()  # creates the context, where the trainer's own imports haven't
    _same_card(orders.device_uuid)
    outside = card.outside()
    allowed = cap_bytes - outside
    if allowed <= 0:
        alone = f"the CUDA context alone takes {format_size(outside)}"
        raise BudgetError(f"{alone}, and the budget allows {format_size(cap_bytes)}: give it more (device.memory), or free the card")
    free = int(torch.cuda.mem_get_info()[0]) + int(torch.cuda.memory_reserved())
    drift = card_memory.SETTLED_BYTES  # the driver holds some MiB in no process's name
    if orders.idle_free_bytes and allowed > free + drift and not orders.cards:  # of memory shared with the host's the page cache isn't free
        left = f"{format_size(free)} of its card are left of the {format_size(allowed)} that it may have"
        print(f"autofit: {left}: it goes on with those", file=sys.stderr, flush=True)
        cap_bytes = outside + free
    tighten(cap_bytes, outside)
    return outside


def without_search() -> None:
    """Has cuDNN take for each convolution what it takes without ``cudnn.benchmark``, whatever the program says of that."""
    import torch

    torch.backends.cudnn.benchmark = False
    torch._C._set_cudnn_benchmark = vars(type(torch.backends.cudnn))["benchmark"].setter = lambda _: None


def number_of(uuid: str) -> int:
    """The card's number in this process; the current one's where it can't be told (before torch 2.4)."""
    import torch

    found = [at for at in range(torch.cuda.device_count()) if uuid and bare(uuid_of(at)) == bare(uuid)]
    return found[0] if found else int(torch.cuda.current_device())


def uuid_of(number: int) -> str:
    """A card of this process as NVML names it; empty where torch doesn't tell."""
    import torch

    found = getattr(torch.cuda.get_device_properties(number), "uuid", None)  # since torch 2.4
    return "" if found is None else f"GPU-{bare(str(found))}"


def tighten(cap_bytes: int, outside_bytes: int, number: int | None = None) -> None:
    """Limits PyTorch's allocator to what the cap leaves beside what is held outside of it. ``number``: None is the current card."""
    import torch

    total = int(torch.cuda.mem_get_info(number)[1])
    torch.cuda.set_per_process_memory_fraction(min(1.0, max(0.0, (cap_bytes - outside_bytes) / total)), number)


def _same_card(uuid: str) -> None:
    """A script that sets CUDA_VISIBLE_DEVICES itself runs on another card than the one that is budgeted and metered."""
    import torch

    found = uuid_of(torch.cuda.current_device())
    if not found or not uuid.startswith("GPU-") or bare(found) == bare(uuid):  # a slice goes by another name there
        return
    raise BudgetError(
        f"this process runs on the card {found} and the budget is for {uuid}: something in it sets CUDA_VISIBLE_DEVICES. "
        "Take that out and let device.index choose the card"
    )


def bare(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-")
