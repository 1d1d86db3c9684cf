"""Finds which kind of failure a log tells of. Pure. What a line means is known by ``shared.memory_failures`` and ``run.cause``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile

from launcher.adapter import log_line
from launcher.adapter.progress import Progress
from launcher.explain.figures import CardFigures, read
from launcher.explain.known import match, table
from launcher.explain.part import LAST_LINES
from launcher.explain.plain import said
from launcher.run.cause import from_error, last_chain
from launcher.shared import write_failures
from launcher.shared.memory_failures import MemoryFailure, maybe_memory, memory_failure, memory_failures
from launcher.shared.sizes import GIB, MIB


class Trouble(StrEnum):
    """Kinds of failures."""

    ALLOCATOR = "allocator"  # PyTorch's allocator got no more of the card
    FRAGMENTATION = "fragmentation"  # it held enough, in pieces that are too small
    GIANT = "giant"  # for one request that is most of the card
    NEIGHBOURS = "neighbours"  # other processes hold the card's memory
    SPILLED = "spilled"  # the driver had moved memory out of the card
    DRIVER = "driver"  # CUDA itself, outside PyTorch's allocator
    LIBRARY = "library"  # cuBLAS, cuDNN and their like
    NCCL = "nccl"
    PINNED = "pinned"  # page-locked host memory
    HOST = "host"  # an allocation in host memory was refused
    KILLER = "killer"  # the kernel, or who keeps to a limit, killed it for want of memory
    KILLED = "killed"  # killed, and the log doesn't say why
    SHM = "shm"  # /dev/shm
    WORKERS = "workers"  # a loader's worker died
    FOREIGN = "foreign"  # of a card's memory, in a program that is no PyTorch training
    MAYBE = "maybe"  # a message that can mean memory, and other things
    OTHER = "other"  # an error that is no want of memory
    NOTHING = "nothing"  # no failure was found

    @property
    def of_memory(self) -> bool | None:
        """True: memory failed; None: it can't be told."""
        if self in (Trouble.KILLED, Trouble.MAYBE, Trouble.WORKERS):
            return None
        return self not in (Trouble.OTHER, Trouble.NOTHING)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFailure:
    """The failure that a log ends with."""

    kind: Trouble
    line: str = ""
    """The line that says so."""
    chain: str = ""
    """The traceback that it stands in; the whole log if there is none."""
    figures: CardFigures = field(default_factory=CardFigures)
    went_on: bool = False
    """The program got over it."""


_KILLER = re.compile(
    r"Out of memory: Kill(ed)? process|invoked oom-killer|oom[-_]kill(er)? event|OOM Killed|oom-kill:|Memory cgroup out of memory"
    r"|oom_reaper: reaped|systemd-oomd\S*: Killed|OOMKilled|[Ee]xceeded (job |step )?memory limit|may have been killed by the cgroup"
    r"|SIGKILL due to memory|Task was killed due to the node running low"
)
"""Words of the kernel, systemd, Slurm, Kubernetes, Ray and notebooks."""
_KILLED = re.compile(
    r"^(/\S+: line \d+:\s+\d+ |\[\d+\]\s+\+?\s*\d* ?)?Killed\b|^(\[\d+\]\s+\+?\s*\d+ +|zsh: )killed\b|exit (code|status):? (137|-9)\b|exitcode ?: ?-9\b|Signal 9 \(SIGKILL\)"
    r"|Signals\.SIGKILL|return code ?=? ?-9|terminated with signal SIGKILL|killed by signal: Killed|exited with (code|status) 137"
    r"|^(Getötet|Processus arrêté|Tué|Terminado \(killed\)|Ucciso|Morto|已杀死|強制終了|죽었음|Убито)\b"
)
_ADVICE = re.compile(
    r"^(?=.*(?:out of memory|OOM)).*?\b(if|in case|to avoid|to prevent|avoids?|prevents?|may|might|could|can|reduces?|risk of|likely|except)\b(?!.*Error: )"
    r".*(out of memory|OOM)",
    re.IGNORECASE,
)
"""Advice that speaks of memory, and no failure of it."""
_ERROR = re.compile(
    r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b|^terminate called|Error:|^ERROR\b|\bCUDA error\b|^Segmentation|Bus error"
)


_CUT = re.compile(r"[Tt]ried to allocate [\d.,]+ ?[KMGT]i?B|reserved by PyTorch but unallocated|max_split_size_mb to avoid fragmentation")
"""Words of PyTorch's allocator only, where somebody left out its first."""
_NEXT = re.compile(r"Traceback|out of memory|Error: ")
"""Begins what is no more of a message."""
_CARD = re.compile(r"CUDA:\d+ \([^()]*, (\d+)MiB\)")
_ROW = re.compile(r"^\s*\d+/\d+\s+([\d.]+)G\s")
"""Ultralytics' words for its card, and for what PyTorch holds of it."""


def find(lines: Sequence[str]) -> LogFailure:
    """Finds the failure that the log ends with. ``lines``: plain ones."""
    text = "\n".join(lines)
    chain = last_chain(text)
    spoken = [line for line in said(chain.splitlines()) if not _is_advice(line)]
    failure = _failure(spoken)
    of_host = failure is None or failure.source in ("host", "workers")
    if of_host and (killer := _last(_KILLER, lines)):
        return LogFailure(kind=Trouble.KILLER, line=killer, chain=chain)
    if of_host and (foreign := _last(re.compile("|".join(one.signs for one in table().errors if one.on_card)), spoken)):
        return LogFailure(kind=Trouble.FOREIGN, line=foreign, chain=chain)
    if failure is not None:
        return _of_memory(failure, spoken, chain, went_on=_went_on(text, failure.line))
    if killed := _last(_KILLED, lines):
        return LogFailure(kind=Trouble.KILLED, line=killed, chain=chain)
    return _of_another_kind(chain, spoken)


def _is_advice(line: str) -> bool:
    return _ADVICE.search(line) is not None and "Tried to allocate" not in line


def _failure(spoken: Sequence[str]) -> MemoryFailure | None:
    """The last one; of the allocator's rather one that tells a size than what somebody said of it."""
    last = memory_failure("\n".join(spoken), last=True)
    if last is None:
        return MemoryFailure(source="allocator", line=cut, asked_bytes=None) if (cut := _last(_CUT, spoken)) else None
    sized = [one for one in memory_failures(spoken) if one.source == "allocator" == last.source and one.asked_bytes]
    return sized[-1] if sized else last


def _of_memory(failure: MemoryFailure, spoken: Sequence[str], chain: str, *, went_on: bool) -> LogFailure:
    at = next(number for number, line in enumerate(spoken) if line.strip().startswith(failure.line[:400]))
    below = list(takewhile(lambda line: not _NEXT.search(line), spoken[at + 1 : at + 13]))
    figures = read(" ".join([spoken[at], *below]))
    kind = _kind(failure, figures, chain, around=" ".join(spoken[max(0, at - 3) : at + 6]))
    return LogFailure(kind=kind, line=spoken[at].strip(), chain=chain, figures=figures, went_on=went_on)


def _kind(failure: MemoryFailure, figures: CardFigures, chain: str, *, around: str) -> Trouble:
    match failure.source:
        case "workers" if re.search(r"[Bb]us error|shared memory|\bshm\b", chain):
            return Trouble.SHM
        case "workers":
            return Trouble.KILLED if "signal: Killed" in failure.line else Trouble.WORKERS
        case "pinned" | "host":
            return Trouble(failure.source)
        case "driver" if re.search(r"\bNCCL\b|\bnccl\w+\b|Failed to CUDA (calloc|malloc)", around):
            return Trouble.NCCL
        case "driver":
            return Trouble.LIBRARY if re.search(r"_STATUS_|_ALLOC_FAILED", failure.line) else Trouble.DRIVER
    return _of_allocator(figures)


LEAST_NEIGHBOUR_BYTES = GIB
"""Bytes beyond what a process mostly holds by itself outside PyTorch's allocator (context, libraries)."""


def _of_allocator(figures: CardFigures) -> Trouble:
    held, total = figures.reserved, figures.total
    if held is not None and total is not None and held > total:
        return Trouble.SPILLED
    asked, idle = figures.asked, figures.idle
    least = max(LEAST_NEIGHBOUR_BYTES, (total or 0) // (2 if figures.ours is None else 4))  # a rest is also what isn't told of this process
    if figures.others is not None and total and figures.others >= least and (figures.free or 0) < (asked or GIB):
        return Trouble.NEIGHBOURS
    if figures.giant:
        return Trouble.GIANT
    if asked is not None and idle is not None and held and idle >= max(asked, held // 10, 32 * MIB):
        return Trouble.FRAGMENTATION
    return Trouble.ALLOCATOR


def _went_on(text: str, line: str) -> bool:
    """Tells whether the log speaks of training after the line, without an error."""
    after = text[text.rindex(line[:400]) :].splitlines()[1:LAST_LINES]
    return "Traceback" not in text and sum(log_line.read(one, Progress()).progress != Progress() for one in after) > 1


def _of_another_kind(chain: str, spoken: Sequence[str]) -> LogFailure:
    if unwritten := _last(write_failures.WHY, spoken):
        return LogFailure(kind=Trouble.OTHER, line=unwritten, chain=chain)
    if doubtful := maybe_memory("\n".join(spoken)):
        return LogFailure(kind=Trouble.MAYBE, line=doubtful, chain=chain)
    error = from_error(chain)[0].strip() if 'File "' in chain else ""
    if not _ERROR.search(error):
        error = next((one.strip() for one in reversed(spoken) if _ERROR.search(one) or match(table().errors, one)), error)
    row = _last(_ROW, spoken)
    if not error and (card := _CARD.search("\n".join(spoken))) and (held := _ROW.match(row)):
        figures = CardFigures(total=int(card[1]) * MIB, reserved=int(float(held[1]) * 10**9))
        if _of_allocator(figures) is Trouble.SPILLED:
            return LogFailure(kind=Trouble.SPILLED, line=row, chain=chain, figures=figures)
    return LogFailure(kind=Trouble.OTHER if error else Trouble.NOTHING, line=error, chain=chain)


def _last(pattern: re.Pattern[str], lines: Sequence[str]) -> str:
    return next((line.strip() for line in reversed(lines) if pattern.search(line.strip())), "")
