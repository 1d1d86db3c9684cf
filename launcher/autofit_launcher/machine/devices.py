"""Finds the device and the memory that a launch may use by the recipe's ``device.*``: a ``Budget``, or every fault. Never imports torch.

``machine.nvml`` and ``machine.host`` read what is there; this module decides. Sizes are bytes.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autofit_launcher.common import card_memory
from autofit_launcher.common.orders import MALLOC_VALUE, MALLOC_VARIABLE
from autofit_launcher.common.sizes import GIB, MIB, format_size
from autofit_launcher.errors import BadInput, Fault, refusal
from autofit_launcher.machine import host
from autofit_launcher.machine import nvml as nvml_module
from autofit_launcher.machine.nvml import Card

CEILING = 1.5
"""A CPU trial's allocations fail only at this many times its budget. So no library skips a figure or takes another kernel for lack of
memory, and what the run needs is measured. docs/decisions/004."""
NOMINAL = 1.07
"""A card sold as 16 GiB gives programs a little less (15.6 to 15.99 GiB). Asking for up to this many times that means all of it."""
TOLERATED_BYTES = GIB
"""Memory of a card that others may hold without ``device.share``, beside what draws the desktop."""
DESKTOP_PART = 4
"""A desktop may have up to a quarter of the card, and is budgeted around. Under WSL nobody tells whose memory it is."""
SLACK_BYTES = 256 * MIB
"""A run's allocator leaves so much of its budget to kernels that are loaded late, at most half of the headroom: its trial had less."""
SPILL_PART = 0.9
"""Under WSL and Windows memory stops being resident on the card, without a failure, below what the driver calls free: about 2 GiB
below it on cards of 24 GiB, where 0.80 of a card held and 0.88 didn't (github.com/microsoft/WSL/issues/41176). A trial's cap there is
this part of what it is elsewhere: 0.81 of the card with the usual headroom."""
WAITING_S = 2.0
"""Seconds between two looks at a card that others hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """The device of a launch, and how much of its memory it may use. Bytes."""

    kind: str
    """"cuda" or "cpu"."""
    index: int
    """The card's number in nvidia-smi, for people; 0 on a CPU."""
    uuid: str = ""
    """The card's UUID, by which it is named everywhere; empty on a CPU."""
    name: str
    total_bytes: int
    """Memory that programs can use: on a card without the driver's reserve; on a CPU at most the container's or the job's limit."""
    free_bytes: int
    budget_bytes: int
    """The memory of the launch: ``device.memory`` (by default all of the card), less what others use."""
    cap_bytes: int
    """Size that a trial must stay below: the budget less the headroom (``cap_of``)."""
    ceiling_bytes: int
    """Size at which a trial's allocations really fail. On a CPU above the cap, so that the need is measured (a trial fits if it *stayed*
    below the cap). On a card the cap itself, which keeps the driver from spilling."""
    headroom: float
    emulated: bool
    """``device.memory`` made the device smaller than it is."""
    notes: tuple[str, ...]
    """Sentences for the record: what was tolerated, lowered or assumed."""
    may_spill: bool = False
    """The driver uses host memory when the card is full (WSL, Windows)."""
    driver: str = ""
    """The version of the card's driver; empty on a CPU."""
    ranks: tuple[Budget, ...] = ()
    """Budget of each rank of a training that runs once on each of several devices (``machine.ranks``). What is above is then that of the
    smallest; notes are of all."""

    @property
    def each(self) -> tuple[Budget, ...]:
        """The budget of every rank; of one process its own."""
        return self.ranks or (self,)

    def __str__(self) -> str:
        if self.ranks:
            cards = ",".join(str(one.index) for one in self.ranks)
            place = f"cuda:{cards}" if self.kind == "cuda" else f"cpu, {len(self.ranks)} processes"
            return f"{place} ({self.name}, {format_size(self.budget_bytes)} each)"
        place = f"cuda:{self.index}" if self.kind == "cuda" else "cpu"
        part = f" of {format_size(self.total_bytes)}" if self.budget_bytes < self.total_bytes else ""
        return f"{place} ({self.name}, {format_size(self.budget_bytes)}{part})"


def find(
    kind: str = "auto",
    *,
    index: int = 0,
    memory_bytes: int | None = None,
    headroom: float | None = None,
    share: bool = False,
    nvml: Any = None,
    environ: Mapping[str, str] | None = None,
) -> Budget:
    """The device that a launch may use, with its budget. Raises BadInput with all faults, under ``device.*`` keys.

    ``kind``: "cuda", "cpu", or "auto": cuda where NVML finds a card that isn't hidden, else cpu. A card that is there
    but broken is a fault for "auto" too: nobody wants 300 epochs on a CPU because a driver update waits for a reboot.
    ``index``: counts among the cards that CUDA_VISIBLE_DEVICES leaves visible.
    ``memory_bytes``: emulates a smaller card, or sets the CPU budget. None: all of the card; 80 % of a CPU's free.
    ``headroom``: None is the default of the kind.
    ``share``: budget what others leave free. Otherwise others may hold ``TOLERATED_BYTES`` together at most.
    ``nvml``: anything with pynvml's functions; None imports pynvml. ``environ``: None is os.environ.
    """
    env = os.environ if environ is None else environ
    if kind == "cpu":
        return _on_cpu(memory_bytes, headroom, ())
    uuids, absence = nvml_module.seen(env, nvml)
    if absence is None:
        if index >= len(uuids):
            found = f"{index} is asked, but of cards {len(uuids)} can be seen (CUDA_VISIBLE_DEVICES={env.get('CUDA_VISIBLE_DEVICES', '')})"
            raise refusal(found, f"Use a number from 0 to {len(uuids) - 1}.", key="device.index")
        api, _ = nvml_module.opened(nvml)
        card = nvml_module.read_card(api, uuids[index])
        faults = [*card_faults(card, memory_bytes, share=share), *allocator_faults(env)]
        if faults:
            raise BadInput(faults)
        budget = _on_card(card, memory_bytes, headroom, card_notes(card, memory_bytes, share=share))
        return replace(budget, driver=nvml_module.driver_of(api))
    if kind == "auto" and not absence.broken:
        return _on_cpu(memory_bytes, headroom, (f"no GPU is used: {absence.found}",))
    raise refusal(f"{kind} is asked, but {absence.found}", absence.cure, key="device.kind")


def chosen_kind(kind: str) -> str:
    """ "cuda" or "cpu": what ``device.kind`` means on this machine. A broken card counts as a card."""
    return "cpu" if identity(kind) == "cpu" else "cuda"


def identity(kind: str, *, index: int = 0, environ: Mapping[str, str] | None = None) -> str:
    """Identity of the device that ``find`` would choose: a card's UUID, or "cpu"; empty if there is none."""
    if kind == "cpu":
        return "cpu"
    uuids, absence = nvml_module.seen(os.environ if environ is None else environ)
    if absence is not None:
        return "cpu" if kind == "auto" and not absence.broken else ""
    return uuids[index] if index < len(uuids) else ""


def orders_of(budget: Budget, *, run: bool = False) -> dict[str, Any]:
    """Tells a process of its device (``Orders``): a trial stays below the cap, a run has the budget, on a card less ``SLACK_BYTES``; where
    the driver may spill, no more than that above its trial's cap, below which nothing was spilled."""
    caps = {"cap_bytes": budget.cap_bytes, "ceiling_bytes": budget.ceiling_bytes}
    if run:
        kept = min(SLACK_BYTES, (budget.budget_bytes - budget.cap_bytes) // 2) if budget.kind == "cuda" else 0
        caps = {"cap_bytes": budget.cap_bytes + kept if budget.may_spill else budget.budget_bytes - kept}
    return {"device_uuid": budget.uuid, "idle_free_bytes": free_now(budget) or 0, **caps}


def free_now(budget: Budget, *, nvml: Any = None) -> int | None:
    """Bytes free on the budget's card now; None on a CPU, or if NVML doesn't answer."""
    return nvml_module.asked(lambda api: card_memory.free_bytes(api, budget.uuid), nvml) if budget.kind == "cuda" else None


def used_bytes(budget: Budget, pids: Iterable[int], *, nvml: Any = None) -> tuple[int, bool]:
    """Bytes that these processes hold of the budget's card now, of several cards of the one with most, and whether the driver told them.

    Where the driver doesn't tell of processes (WSL, containers), or they hold nothing: what is in use beyond what was when the budget was
    made; neighbours who come and go count then.
    """
    if budget.ranks:
        return max(used_bytes(one, pids, nvml=nvml) for one in budget.ranks)
    if (own := nvml_module.asked(lambda api: card_memory.own_bytes(api, budget.uuid, *pids), nvml)) is not None:
        return own, True
    free = free_now(budget, nvml=nvml)
    return 0 if free is None else max(0, budget.free_bytes - free), False


def taken(budget: Budget, *, nvml: Any = None) -> str:
    """A sentence about who holds memory that the budget counts on; empty if nobody does. Call it only while none of our processes runs.

    The headroom is tolerated, since a desktop's use changes all the time: a trial's cap is there all the same, and a run that fits in it.
    """
    if budget.ranks:
        return next((words for one in budget.ranks if (words := taken(one, nvml=nvml))), "")
    free = free_now(budget, nvml=nvml)
    drift = max(card_memory.SETTLED_BYTES, budget.budget_bytes - budget.cap_bytes)
    if free is None or free >= budget.budget_bytes - drift:
        return ""
    card = nvml_module.read_card(nvml_module.opened(nvml)[0], budget.uuid)
    return f"{format_size(free)} of {card} are free and the budget needs {format_size(budget.budget_bytes)}{_BY_OTHERS}"


def wait_for(budget: Budget, *, timeout_s: float, nvml: Any = None) -> str:
    """Waits until the card's memory is free again, at most ``timeout_s``. Returns what ``taken`` says then."""
    until = time.monotonic() + timeout_s
    while (holder := taken(budget, nvml=nvml)) and time.monotonic() < until:
        time.sleep(min(WAITING_S, max(0.0, until - time.monotonic())))
    return holder


def settle(budget: Budget, *, idle_free_bytes: int | None = None, timeout_s: float = 2.0, nvml: Any = None) -> bool:
    """Waits until the card's memory of an ended child is free. False if it isn't, and ``timeout_s`` have brought no more of it.

    The driver frees a dead process's memory a moment after the process is gone; a trial that starts too early would be
    judged by its predecessor's memory. ``idle_free_bytes``: what was free before that child; None: when the budget was found.
    """
    if budget.ranks:
        return all(settle(one, timeout_s=timeout_s, nvml=nvml) for one in budget.ranks)
    idle = budget.free_bytes if idle_free_bytes is None else idle_free_bytes
    most, until = -1, 0.0
    while (free := free_now(budget, nvml=nvml)) is not None and free < idle - card_memory.SETTLED_BYTES:
        if free > most:
            most, until = free, time.monotonic() + timeout_s
        elif time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


# ---- CUDA


_BY_OTHERS = " (nvidia-smi, in a container the host's, tells who holds it)"


def card_faults(card: Card, memory_bytes: int | None = None, *, share: bool = False) -> list[Fault]:
    """Faults of this card for the asked budget."""
    total, free, faults = format_size(card.total_bytes), format_size(card.free_bytes), []
    if memory_bytes is not None and memory_bytes > card.total_bytes * NOMINAL:
        found = f"{format_size(memory_bytes)} is asked, but {card} has {total} that programs can reach"
        cure = f"Ask for {total} or less, or leave it empty for all of the card."
        faults.append(Fault(key="device.memory", found=found, cure=cure))
    drawn = min(card.used_bytes if may_spill() else card.drawn_bytes, card.total_bytes // DESKTOP_PART)
    if card.used_bytes - drawn > TOLERATED_BYTES and not share:
        found = f"{format_size(card.used_bytes)} of the {total} of {card} are in use{_BY_OTHERS}"
        cure = f"End them if they are leftovers, wait, or set device.share=true to budget only the {free} that are free now."
        faults.append(Fault(key="device.share", found=found, cure=cure))
    return faults


def allocator_faults(env: Mapping[str, str]) -> list[Fault]:
    """Faults of the user's allocator settings: cudaMallocAsync, whose pool no cap limits, or a memory fraction beside ours."""
    words = {"cudamallocasync": "whose pool no cap holds", "per_process_memory_fraction": "which autofit itself sets"}
    return [
        Fault(key=name, found=f"{env[name]!r} sets {word}, {why}", cure="Take it out; device.memory says how much.", where="environment")
        for name in VARIABLES for word, why in words.items() if word in env.get(name, "").lower()
    ]  # fmt: skip


def card_notes(card: Card, memory_bytes: int | None = None, *, share: bool = False) -> tuple[str, ...]:
    notes = []
    asked = card.total_bytes if memory_bytes is None else memory_bytes
    if asked < card.total_bytes:
        total = format_size(card.total_bytes)
        notes.append(f"{card} has {total}; device.memory makes it a card of {format_size(asked)}")
    if card.free_bytes < asked:
        free = format_size(card.free_bytes)
        notes.append(f"the budget is the {free} that others leave free of {format_size(asked)}")
    if share and card.used_bytes > 0:
        notes.append("device.share=true: a neighbour that grows later takes memory that this budget counts on")
    if may_spill():
        part = f"{1 - SPILL_PART:.0%} lower than elsewhere, and its time per sample is compared with that of half the micro-batch"
        notes.append(f"this driver (WSL, Windows) gives host memory instead of failing: a trial's cap is {part}")
    return tuple(notes)


def may_spill() -> bool:
    """Tells whether this driver gives host memory where a card is full (WSL, Windows)."""
    return platform.system() == "Windows" or "microsoft" in platform.release().lower()


def _on_card(card: Card, memory_bytes: int | None, headroom: float | None, notes: tuple[str, ...]) -> Budget:
    headroom = DEFAULT["cuda"] if headroom is None else headroom
    asked = card.total_bytes if memory_bytes is None else memory_bytes
    budget = min(asked, card.free_bytes)
    cap = math.floor(budget * (1 - headroom) * (SPILL_PART if may_spill() else 1))
    return Budget(
        kind="cuda", index=card.index, uuid=card.uuid, name=card.name, total_bytes=card.total_bytes, free_bytes=card.free_bytes,
        budget_bytes=budget, cap_bytes=cap, ceiling_bytes=cap, headroom=headroom,
        emulated=asked < card.total_bytes, notes=notes, may_spill=may_spill(),
    )  # fmt: skip


# ---- CPU


def _on_cpu(memory_bytes: int | None, headroom: float | None, notes: Sequence[str]) -> Budget:
    headroom = DEFAULT["cpu"] if headroom is None else headroom
    if platform.system() != "Linux":
        found = f"a CPU budget needs Linux's RLIMIT_DATA, and this is {platform.system() or 'another system'}"
        raise refusal(found, "Run in WSL, a Linux container or a machine with an NVIDIA card.", key="device.kind")
    notes = list(notes)
    total, free, machine = host.memory()
    if total < machine:
        notes.append(f"this container or job may use {format_size(total)} of the machine's {format_size(machine)}")
    if memory_bytes is not None and memory_bytes > free:
        asked = format_size(memory_bytes)
        found = f"{asked} is asked, but {format_size(free)} of {format_size(total)} of host memory is available"
        cure = f"Ask for less, or leave it empty for {host.PART:.0%} of what is available."
        raise refusal(found, cure, key="device.memory")
    budget = memory_bytes or int(free * host.PART)
    if cap_of(budget, headroom) <= 0:
        found = f"{format_size(budget)} is the budget, and at least {format_size(LEAST_BYTES)} of a CPU's stay free"
        raise refusal(found, "Give it more; device.headroom=0 keeps nothing free.", key="device.memory")
    if memory_bytes is None:
        share = f"{host.PART:.0%} of the {format_size(free)} of host memory available now"
        notes.append(f"the budget is {share}; device.memory sets it")
    return Budget(
        kind="cpu",
        index=0,
        name=host.cpu_name(),
        total_bytes=total,
        free_bytes=free,
        budget_bytes=budget,
        cap_bytes=cap_of(budget, headroom),
        ceiling_bytes=max(budget, min(int(budget * CEILING), int(free * host.PART))),
        headroom=headroom,
        emulated=memory_bytes is not None,
        notes=tuple(notes),
    )


DEFAULT = {"cuda": 0.10, "cpu": 0.25}
"""Fraction of the budget, by the kind of device. Threads, figures and libraries' caches make a run on a CPU differ more from its trial."""
LEAST_BYTES = 64 * MIB
"""A CPU's budget keeps at least this much free, unless the headroom is 0: such differences have a size of their own."""


def cap_of(budget_bytes: int, headroom: float) -> int:
    """The cap of trials under a CPU's budget. ``headroom``: fraction of the budget that stays free."""
    cap = int(budget_bytes * (1 - headroom))
    return min(cap, budget_bytes - LEAST_BYTES) if headroom else cap


def budget_for(cap_bytes: int, headroom: float, *, kind: str = "cpu") -> int:
    """The smallest budget whose cap is at least ``cap_bytes``."""
    budget = math.ceil(cap_bytes / (1 - headroom))
    return max(budget, cap_bytes + LEAST_BYTES) if headroom and kind == "cpu" else budget


VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
"""Every supported torch reads it, and 2.15 reads nothing else where it is set; PYTORCH_ALLOC_CONF is read since 2.9 only."""
VARIABLES = (VARIABLE, "PYTORCH_ALLOC_CONF")
"""Variables in which a person may have set something, in the order in which torch looks."""
MALLOC = {
    MALLOC_VARIABLE: MALLOC_VALUE, "MALLOC_TRIM_THRESHOLD_": MALLOC_VALUE, "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16", "LRU_CACHE_CAPACITY": "16",
}  # fmt: skip
"""Variables on a CPU. Arrow's own pool (mimalloc) reserves 1 GiB of data at its first table, and a budget counts what is reserved.
oneDNN keeps 1024 primitives, new ones for each shape: memory grows with the *variety* of a run's shapes, which no short trial has. A
YOLOv8n-obb of many sizes took 147 % of its trial so (survival's seed 26, 25 epochs), more than the quarter that stays free; with 16
processor seconds are the same within the noise."""


def allocator_environment(budget: Budget) -> dict[str, str]:
    """Variables that decide how memory is allocated: the same in the trial and in the full run.

    CPU: glibc gives every tensor back at once.

    CUDA: its cards, in the order of ranks, and expandable segments, unless the person's own environment says otherwise.
    Segments that can't grow fill a card with cache where shapes differ, and then a kernel that is loaded late finds no room. Not under WSL,
    whose drivers below R615 can't map them (pytorch#192330). The variable is always set: a script's own ``os.environ.setdefault`` finds it.
    """
    if budget.kind == "cpu":
        return MALLOC
    cards = nvml_module.told_to_cuda([one.uuid for one in budget.each])
    return {**cards, VARIABLE: _segments(expandable=not budget.may_spill)}


def steps_back() -> bool:
    """Has no expandable segments in what this process starts from here on; False where the person has chosen, or it has none by now."""
    before, os.environ[VARIABLE] = os.environ.get(VARIABLE), _segments(expandable=False)
    return os.environ[VARIABLE] != before


def _segments(*, expandable: bool) -> str:
    """The person's settings with that beside them; theirs alone where they say it themselves."""
    said = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    return said if "expandable_segments" in said else ",".join(filter(None, [said, f"expandable_segments:{expandable}"]))
