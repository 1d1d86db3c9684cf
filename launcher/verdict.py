"""What a trial did -> a Verdict with its evidence. Pure; the table of memory failures' texts lives here.

Sources of the texts: strings of PyTorch 1.x to 2.15, CUDA, NCCL and glibc, real failures under RLIMIT_DATA, public threads.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from launcher.contract.ending import Ending
from launcher.contract.report import Phase, TrialReport
from launcher.ladder import Rung
from launcher.schema import Value
from launcher.sizes import UNITS

Source = Literal["allocator", "driver", "host", "workers"]


class Kind(StrEnum):
    """The seven ways a trial can end. Only ``FITS`` launches."""

    FITS = "fits"
    OUT_OF_MEMORY = "out_of_memory"
    SPILLED = "spilled"  # ran, but out of the card
    ALTERED = "altered"  # the trainer ran something else than asked
    VACUOUS = "vacuous"  # did not really do its steps and its validation
    CRASHED = "crashed"
    STALLED = "stalled"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What happened at one rung, as data."""

    kind: Kind
    phase: str
    """The phase it ended in (``report.Phase``)."""
    why: str
    """One sentence for people."""
    source: Source | None = None
    """For memory failures: who refused."""
    asked_bytes: int | None = None
    """For memory failures: how much the failing allocation asked for, where its text says so."""
    peak_bytes: int = 0
    """Most memory the trial held (reserved by the allocator; data segments on the CPU)."""
    evidence: str = ""
    """The words of the trainer this was concluded from: a line, or a traceback for a crash."""

    @property
    def fits(self) -> bool:
        return self.kind is Kind.FITS

    @property
    def lower_rung_may_help(self) -> bool:
        """True for every failure of memory; a crash, a stall or a vacuous trial stops the walk at once."""
        return self.kind in (Kind.OUT_OF_MEMORY, Kind.SPILLED, Kind.ALTERED)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFailure:
    """A memory failure recognised in text."""

    source: Source
    line: str
    asked_bytes: int | None


# (source, pattern). First match wins, so the particular come before the general.
_NOT_MEMORY = re.compile(r"out of resource: shared memory|virtual-address-space \(VSZ\) exhaustion|can't start new thread")
_SIGNATURES: tuple[tuple[Source, re.Pattern[str]], ...] = tuple(
    (source, re.compile(pattern))  # type: ignore[misc]
    for source, pattern in (
        ("workers", r"DataLoader worker .*is killed by signal"),
        ("workers", r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly"),
        ("workers", r"insufficient shared memory \(shm\)"),
        ("workers", r"unable to (allocate|open) shared memory"),
        ("allocator", r"(CUDA|HIP|XPU) out of memory"),
        ("allocator", r"MPS backend out of memory"),
        ("allocator", r"would exceed allowed memory"),
        ("allocator", r"memory allocation failed with OOM on device|memory mapping failed with OOM on device"),
        ("allocator", r"Evaluation hit an out-of-memory error|No executable batch size found, reached zero"),
        ("driver", r"(CUDA|HIP)( driver)? error: out of memory|cuda runtime error \(2\) : out of memory|cudaErrorMemoryAllocation"),
        ("driver", r"CUDA ran out of memory outside PyTorch's allocator"),
        ("driver", r"CU(BLAS|SOLVER|SPARSE|FFT|DNN)_STATUS_\w*ALLOC(ATION)?_FAILED"),
        ("driver", r"Failed to CUDA (calloc|malloc|host alloc)|Cuda failure 2 'out of memory'"),
        ("driver", r"UR_RESULT_ERROR_OUT_OF_(DEVICE_MEMORY|RESOURCES)"),
        ("host", r"DefaultCPUAllocator: (can't allocate memory|not enough memory)"),
        ("host", r"Cannot allocate memory|Unable to allocate [\d.]+ [KMGT]iB|std::bad_alloc|\bMemoryError\b"),
        ("host", r"OpenBLAS error: Memory allocation still failed"),
        ("host", r"failed to map segment from shared object"),
        ("host", r"Insufficient memory|OutOfMemoryError: Failed to allocate"),  # OpenCV: Failed to allocate N bytes
    )
)
# Texts that also have causes other than memory: they count as memory only where the memory really stood at its cap.
_MAYBE = re.compile(
    r"could not (create|execute) a (primitive|memory)"  # oneDNN, seen under RLIMIT_DATA
    r"|unable to find an engine to execute this computation|No valid execution plans built"
    r"|CUDNN_STATUS_(INTERNAL_ERROR|NOT_SUPPORTED|EXECUTION_FAILED)"
    r"|CUBLAS_STATUS_(NOT_INITIALIZED|INTERNAL_ERROR|EXECUTION_FAILED)"
    r"|can't start new thread"  # a thread's stack is data, too
)
_OOM_CLASSES = frozenset({"OutOfMemoryError", "MemoryError", "_ArrayMemoryError"})
_ASKED = (
    (re.compile(r"Tried to allocate ([\d.]+) ([KMGT]?i?B)"), None),
    (re.compile(r"you tried to allocate (\d+) bytes"), 1),
    (re.compile(r"Failed to allocate (\d+) bytes"), 1),
    (re.compile(r"Unable to allocate ([\d.]+) ([KMGT]?i?B)"), None),
    (re.compile(r"Requested size: ([\d.]+) ([KMGT]?i?B)"), None),
)


def memory_failure(text: str, *, types: Iterable[str] = ()) -> MemoryFailure | None:
    """The memory failure that ``text`` (a whole exception chain, or all of stderr) speaks of, or None."""
    for source, pattern in _SIGNATURES:
        for line in text.splitlines():
            if pattern.search(line) and not _NOT_MEMORY.search(line):
                return MemoryFailure(source=source, line=line.strip()[:500], asked_bytes=_asked_bytes(line))
    if _OOM_CLASSES & {name.rsplit(".", 1)[-1] for name in types}:
        first = text.strip().splitlines()[0] if text.strip() else "MemoryError"
        return MemoryFailure(source="host", line=first[:500], asked_bytes=_asked_bytes(text))
    return None


def _asked_bytes(text: str) -> int | None:
    for pattern, unit in _ASKED:
        if match := pattern.search(text):
            scale = unit if unit is not None else UNITS.get(match.group(2), 1)
            return int(float(match.group(1)) * scale)
    return None


_DEATHS_BY_FULL_MEMORY = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
_NEAR_CAP = 0.9  # a native library that does not check its allocation dies at the cap, not far below it


_THREAD_BYTES = 8 * 2**20  # the stack that a new thread asks for at once (RLIMIT_STACK's usual value)


def _at_the_cap(report: TrialReport, ending: Ending, *, wanted_bytes: int = 0) -> bool:
    """Whether the most memory that anyone saw in use, with what was asked for beside it, is nearly all that the trial was allowed."""
    if not report.cap_bytes:
        return False
    seen = max(report.peak_reserved_bytes, ending.peak_data_bytes - report.base_bytes)
    return seen + wanted_bytes >= _NEAR_CAP * report.cap_bytes


def judge(report: TrialReport | None, ending: Ending, *, rung: Rung, needs: Needs, device_bytes: int) -> Verdict:
    """The verdict on one trial.

    ``needs`` is what the trial was told to do, ``device_bytes`` the physical size of the device. A trial fits only
    where it finished, did all its steps and its validation, ran the rung that was asked, and stayed on the device.
    """
    if report is None:
        report = TrialReport()
    peak = report.peak_reserved_bytes
    phase = report.phase
    failed = _failure(report, ending)
    if failed is not None:
        return Verdict(
            kind=Kind.OUT_OF_MEMORY,
            phase=phase,
            source=failed.source,
            asked_bytes=failed.asked_bytes,
            peak_bytes=peak,
            why=_out_of_memory_words(failed, phase) + _giant(failed, report.cap_bytes, rung),
            evidence=failed.line,
        )
    if ending.timed_out:
        return Verdict(
            kind=Kind.STALLED,
            phase=phase,
            peak_bytes=peak,
            why=f"no end after {ending.seconds:.0f} s, in phase {phase}",
            evidence=ending.stderr_tail,
        )
    if report.failure is not None or ending.returncode != 0:
        return _crash(report, ending, peak)
    if report.swallowed:
        return Verdict(
            kind=Kind.ALTERED,
            phase=phase,
            peak_bytes=peak,
            why=f"the trainer hid a memory failure: {report.swallowed[0]}",
            evidence="\n".join(report.swallowed),
        )
    if phase != Phase.DONE or (short := _short_of(report, needs)):
        why = f"the trial ended in phase {phase}" if phase != Phase.DONE else f"the trial did only {short}"
        why = f"{why}: {report.hint}" if report.hint else why
        return Verdict(kind=Kind.VACUOUS, phase=phase, peak_bytes=peak, why=why, evidence=ending.stderr_tail)
    if other := altered(report.observed, {**rung.values, **needs.observed}):
        return Verdict(kind=Kind.ALTERED, phase=phase, peak_bytes=peak, why=f"the trainer ran {other}", evidence=repr(report.observed))
    used = max((use.device_bytes for use in report.uses), default=0)
    if used > device_bytes:
        return Verdict(
            kind=Kind.SPILLED,
            phase=phase,
            peak_bytes=peak,
            why=f"{used} bytes in use on a device of {device_bytes}: the driver spilled to host memory",
            evidence=repr(report.uses),
        )
    return _grown(report, peak) or Verdict(kind=Kind.FITS, phase=phase, peak_bytes=peak, why="fits")


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """The least a trial must really have done to mean anything."""

    optimizer_steps: int
    validation_batches: int
    train_again_batches: int = 1
    observed: Mapping[str, Value] = field(default_factory=dict)
    """What must have been observed beside the rung's own wheels, such as the device."""


def altered(observed: Mapping[str, Value], asked: Mapping[str, Value]) -> str:
    """What ran otherwise than asked, in words, or an empty string. Wheels the child could not observe don't count."""
    return ", ".join(
        f"{wheel}={observed[wheel]} instead of {value}"
        for wheel, value in asked.items()
        if value is not None and observed.get(wheel) is not None and observed[wheel] != value
    )


def _failure(report: TrialReport, ending: Ending) -> MemoryFailure | None:
    if report.failure is None and (ending.returncode == 0 or ending.timed_out):
        return None
    said = report.failure.message if report.failure is not None else ending.stderr_tail
    if found := memory_failure(said, types=report.failure.types if report.failure is not None else ()):
        return found
    if report.failure is None and ending.returncode == -signal.SIGKILL:
        return MemoryFailure(source="host", line="killed (SIGKILL), as the kernel's out-of-memory killer does", asked_bytes=None)
    if not _at_the_cap(report, ending, wanted_bytes=_THREAD_BYTES if "can't start new thread" in said else 0):
        return None
    full = f"with all of its {report.cap_bytes} bytes in use"
    if report.failure is None and -ending.returncode in _DEATHS_BY_FULL_MEMORY:
        name = signal.Signals(-ending.returncode).name
        return MemoryFailure(source="host", line=f"{name} {full}: a library that does not check its allocation", asked_bytes=None)
    if maybe := next((line for line in said.splitlines() if _MAYBE.search(line)), None):
        return MemoryFailure(source="host", line=f"{maybe.strip()[:400]} ({full})", asked_bytes=None)
    return None


def _out_of_memory_words(failed: MemoryFailure, phase: str) -> str:
    asked = f", asking for {failed.asked_bytes / 2**20:.0f} MiB" if failed.asked_bytes else ""
    cure = " (fewer data loader workers or a larger /dev/shm cure this, not a smaller batch)" if failed.source == "workers" else ""
    return f"out of memory in phase {phase}{asked} ({failed.source}){cure}"


_LENGTHS = ("segment", "sequence_length")
_GIANT = 0.4  # of the cap, in one allocation: an attention matrix, not a batch of many tensors


def _giant(failed: MemoryFailure, cap_bytes: int, rung: Rung) -> str:
    """What one allocation of a large part of the whole budget means, where a length could be shortened; else nothing."""
    length = next((name for name in _LENGTHS if rung.values.get(name) is not None), None)
    if length is None or not failed.asked_bytes or not cap_bytes or failed.asked_bytes < _GIANT * cap_bytes:
        return ""
    return (
        f"; that one allocation is {failed.asked_bytes / cap_bytes:.0%} of the cap: a tensor that grows with the {length} (attention: with "
        f"its square), which a shorter {length} cures better than a smaller batch"
    )


def _crash(report: TrialReport, ending: Ending, peak: int) -> Verdict:
    if report.failure is not None:
        message = report.failure.message.strip().splitlines() or ["no message"]
        name = report.failure.types[0] if report.failure.types else "Exception"
        return Verdict(
            kind=Kind.CRASHED, phase=report.phase, peak_bytes=peak, why=f"{name}: {message[0]}", evidence=report.failure.traceback
        )
    how = f"signal {signal.Signals(-ending.returncode).name}" if ending.returncode < 0 else f"exit status {ending.returncode}"
    return Verdict(
        kind=Kind.CRASHED, phase=report.phase, peak_bytes=peak, why=f"ended by {how} in phase {report.phase}", evidence=ending.stderr_tail
    )


def _short_of(report: TrialReport, needs: Needs) -> str:
    for phase, done, needed, what in (
        (Phase.TRAIN, report.optimizer_steps, needs.optimizer_steps, "optimizer steps"),
        (Phase.VALIDATE, report.validation_batches, needs.validation_batches, "validation batches"),
        (Phase.TRAIN_AGAIN, report.train_again_batches, needs.train_again_batches, "training batches after validation"),
    ):
        if done < needed and phase not in report.absent:
            return f"{done} of {needed} {what}"
    return ""


def _grown(report: TrialReport, peak: int) -> Verdict | None:
    """A trial that fits, but whose validation would fill the cap before the whole set has gone through."""
    left = report.validation_batches_total - report.validation_batches
    kept = report.growth_bytes_per_batch * left
    validation = max((use.reserved_bytes for use in report.uses if use.phase == Phase.VALIDATE), default=peak)
    if left <= 0 or kept <= 0 or not report.cap_bytes or validation + kept <= report.cap_bytes:
        return None
    why = (
        f"validation keeps {report.growth_bytes_per_batch / 2**20:.1f} MiB per batch; after all {report.validation_batches_total} "
        f"batches that is {(validation + kept) / 2**30:.2f} GiB, over the cap of {report.cap_bytes / 2**30:.2f} GiB"
    )
    return Verdict(kind=Kind.OUT_OF_MEMORY, phase=Phase.VALIDATE, source="allocator", peak_bytes=peak, why=why, evidence=why)
