"""Recognises memory failures by a trainer's words. Pure, save for reading logs.

Sources of the texts: strings of PyTorch 2.0 to 2.15, CUDA, NCCL and glibc, real failures under RLIMIT_DATA, public threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from .sizes import UNITS

Source = Literal[
    "allocator", "driver", "host", "workers", "pinned", "measured", "accumulation", "host_memory", "shared_memory", "files", "processes",
    "disk", "checkpointing",
]  # fmt: skip
"""The part that refused the memory. "pinned": page-locked host memory, which WSL has little of; "measured": nobody, the trial needed more
than its cap and got it, or got what it needed only at the cap's very edge; "accumulation": no memory, but a script whose batch can't be put
together from micro-batches; "checkpointing": likewise, modules that can't be computed again; the others: what a machine has beside its
device (``trial.judge``)."""
OF_MACHINE = ("workers", "pinned", "host_memory", "shared_memory", "files", "processes", "disk")
"""Sources that say nothing of the device's memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFailure:
    """A memory failure recognised in text."""

    source: Source
    line: str
    asked_bytes: int | None = None


# (source, pattern). First match wins, so the particular come before the general.
_NOT_MEMORY = re.compile(r"out of resource: shared memory|virtual-address-space \(VSZ\) exhaustion|can't start new thread")
_SIGNATURES: tuple[tuple[Source, re.Pattern[str]], ...] = tuple(
    (source, re.compile(pattern))  # type: ignore[misc]
    for source, pattern in (
        ("workers", r"DataLoader worker .*is killed by signal: *(Killed|Bus error|$)"),
        ("workers", r"insufficient shared memory \(shm\)"),
        ("workers", r"unable to (allocate|open) shared memory"),
        ("workers", r"unable to (write to|resize) file </torch_|No space left on device: '/dev/shm/"),
        ("files", r"Too many open files|received \d+ items of ancdata"),
        ("pinned", r"pin(ned)?[ _]memory.{0,300}(CUDA( driver)? error: out of memory|cudaErrorMemoryAllocation)"),
        ("pinned", r"cudaHostAlloc|cudaHostRegister|CUDA host alloc|allocate pinned host memory|failed to alloc \d+ bytes on host"),
        ("allocator", r"(CUDA|HIP|XPU) out of memory"),
        ("allocator", r"would exceed allowed memory"),
        ("allocator", r"memory allocation failed with OOM on device|memory mapping failed with OOM on device"),
        ("allocator", r"Evaluation hit an out-of-memory error|No executable batch size found, reached zero"),
        ("driver", r"(CUDA|HIP)( driver)? error: out of memory|cudaErrorMemoryAllocation"),
        ("driver", r"CUDA ran out of memory outside PyTorch's allocator"),
        ("driver", r"CU(BLAS|SOLVER|SPARSE|FFT|DNN)_STATUS_\w*ALLOC(ATION)?_FAILED|CUFFT_ALLOC_FAILED"),
        ("driver", r"Triton Error \[CUDA\]: out of memory"),
        ("driver", r"Error out of memory at line"),  # bitsandbytes' csrc
        ("driver", r"Failed to CUDA (calloc|malloc)|Cuda failure (2 )?'out of memory'"),
        ("host", r"DefaultCPUAllocator: (can't allocate memory|not enough memory)"),
        ("host", r"Cannot allocate memory|Unable to allocate [\d.]+ [KMGT]iB|std::bad_alloc|\bMemoryError\b"),
        ("host", r"OpenBLAS error: Memory allocation still failed"),
        ("host", r"memory allocation of \d+ bytes failed"),  # Rust: tokenizers, safetensors and polars end their process with it
        ("host", r"(malloc|realloc) of size \d+ failed|\bArrowMemoryError\b|Out of memory allocating \d+ bytes"),  # Arrow; libgomp
        ("host", r"failed to map segment from shared object|\[WinError 1455\]"),
        ("host", r"Insufficient memory|OutOfMemoryError: Failed to allocate"),  # OpenCV: Failed to allocate N bytes
    )
)
_OF_A_CARD = re.compile(r"\b(CUDA|HIP|XPU)\b|\bcuda|\bCU(BLAS|SOLVER|SPARSE|FFT|DNN)_")
# Texts that also have causes other than memory: they count as memory only where the memory really stood at its cap.
_MAYBE = re.compile(
    r"could not (create|execute) a (primitive|memory)"  # oneDNN, seen under RLIMIT_DATA
    r"|unable to find an engine to execute this computation|No valid execution plans built"
    r"|CUDNN_STATUS_(NOT_INITIALIZED|INTERNAL_ERROR|NOT_SUPPORTED|EXECUTION_FAILED)"
    r"|CUBLAS_STATUS_(NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED)"
    r"|CUFFT_INTERNAL_ERROR"  # torch.stft on a full card: pytorch#119420
    r"|CUDA driver error: device not ready"  # mapping memory, on WSL: microsoft/WSL#41176, or an old driver's fault: pytorch#192330
    r"|NVML_SUCCESS == .*INTERNAL ASSERT FAILED.*CUDACachingAllocator"  # torch to 2.11 asks NVML while it words an out-of-memory
    r"|can't start new thread"  # a thread's stack is data, too
    r"|DataLoader worker .*(is killed by signal|exited unexpectedly)"
    r"|inline_container.*unexpected pos \d+ vs \d+|I/O operation on closed file"  # torch.save tried again
)
NEAR_LIMIT = 0.9
"""A process on a CPU that had this part of what it may have stood at its limit: the allocation that failed doesn't count."""
ECHO = re.compile(
    r"[Cc]onnection (closed|reset|refused)|[Bb]roken pipe|ProcessGroup|DistBackendError|DistNetworkError|NCCL|[Gg]loo"
    r"|CalledProcessError|returned non-zero exit status|ChildFailedError|ProcessRaisedException|ProcessExitedException"
)
"""Words of processes whose neighbour has died, and of programs that start others (accelerate, torchrun, mp.spawn) whose child has."""
_OOM_CLASSES = frozenset({"OutOfMemoryError", "MemoryError", "_ArrayMemoryError"})
_ASKED = re.compile(r"(?:ried|Unable) to allocate ([\d.]+) (bytes|[KMGT]?i?B)")


def memory_failure(text: str, *, types: Iterable[str] = (), last: bool = False) -> MemoryFailure | None:
    """The memory failure that ``text`` (a whole exception chain, or all of stderr) speaks of, or None.

    Of several the most particular counts; with ``last`` the last one in the text: what ended a run, not what it got over.
    Source that stands in a traceback says nothing.
    """
    if (semaphore := _SEMAPHORE.search(text)) is not None:
        return MemoryFailure(source="shared_memory", line=f"no room in /dev/shm for a semaphore: {semaphore[1]}")
    if found := memory_failures(spoken(text.splitlines())):
        order = [source for source, _ in _SIGNATURES]
        return _pinned(found[-1] if last else min(found, key=lambda one: order.index(one.source)), text)
    if _OOM_CLASSES & {name.rsplit(".", 1)[-1] for name in types}:
        first = text.strip().splitlines()[0] if text.strip() else "MemoryError"
        return MemoryFailure(source="host", line=first[:500], asked_bytes=asked_bytes(text))
    return None


def _pinned(failure: MemoryFailure, text: str) -> MemoryFailure:
    """Corrects the source in the thread that pins a loader's batches: there the driver means host memory."""
    pins = failure.source == "driver" and re.search(r"Caught \w+ in pin memory thread", text)
    return replace(failure, source="pinned") if pins else failure


_SEMAPHORE = re.compile(r'synchronize\.py", line \d+, in __init__\n(?:.*\n){0,4}?.*(OSError: \[Errno (?:28|122)\].*)$', re.MULTILINE)
"""Python's semaphores lie in /dev/shm, however much room a disk has; their error alone is that of a full disk."""
_FRAME = re.compile(r"""^(?:\[rank\d+\]: ?)?\s*File "[^"]*", line \d+""")
_WITHIN = re.compile(r"^(?:\[rank\d+\]: )?+\s")


def spoken(lines: Iterable[str]) -> list[str]:
    """The program's own words: the lines without the frames of tracebacks and the source that stands in them."""
    kept, in_traceback = [], False
    for line in lines:
        frame = _FRAME.match(line) is not None
        in_traceback = frame or (in_traceback and _WITHIN.match(line) is not None)
        if not in_traceback:
            kept.append(line)
    return kept


def memory_failures(lines: Iterable[str]) -> list[MemoryFailure]:
    """Returns the lines that speak of a memory failure, in order; of equal lines the first."""
    found: dict[str, MemoryFailure] = {}
    for line in lines:
        if _NOT_MEMORY.search(line):
            continue
        source = next((source for source, pattern in _SIGNATURES if pattern.search(line)), None)
        if source is not None:
            said = line.strip()[:500]
            found.setdefault(said, MemoryFailure(source=source, line=said, asked_bytes=asked_bytes(line)))
    return list(found.values())


def lost_in(*logs: Path, on_card: bool, also: Callable[[str], bool] = lambda line: False) -> tuple[str, ...]:
    """The memory failures that a trainer's logs speak of: what it went on without. Files that aren't there say nothing.

    ``on_card``: it had one. Without, what is said of a card's memory is advice or a memory of other days, and nothing that was lost.
    ``also``: whether a line speaks of one in words of the trainer's own.
    """

    def lost(line: str) -> bool:
        return bool(memory_failures([line])) and (on_card or not _OF_A_CARD.search(line))

    found: list[str] = []
    for log in logs:
        with suppress(OSError), log.open(encoding="utf-8", errors="replace") as lines:
            found += [line.strip()[:500] for line in lines if lost(line) or also(line)]
    return tuple(dict.fromkeys(found))


def maybe_memory(text: str) -> str | None:
    """A line that can mean memory and other things; it counts as memory only where the memory really stood at its limit."""
    return next((line.strip() for line in text.splitlines() if _MAYBE.search(line)), None)


def asked_bytes(text: str) -> int | None:
    match = _ASKED.search(text)
    return int(float(match[1]) * UNITS.get(match[2], 1)) if match is not None else None
