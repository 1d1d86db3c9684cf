"""Judges a trial by its report and by how its process ended. Pure."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autofit_launcher.common.files import maybe_full
from autofit_launcher.common.memory_failures import NEAR_LIMIT, MemoryFailure, Source, maybe_memory, memory_failure
from autofit_launcher.common.report import HELD_AHEAD, HOST_BESIDE, HOST_GROWTH, NOT_EXACT, OVER_CAP, Phase, TrialReport
from autofit_launcher.common.sizes import MIB, format_size
from autofit_launcher.history.records import RoomRecord
from autofit_launcher.ladder.rungs import Rung, Value
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine.meter import HostUse
from autofit_launcher.machine.process import Ending

_DEATHS_BY_FULL_MEMORY = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
SPILL_CLIFF = 2.0
"""A sample may cost this many times what it costs in half the micro-batch. On a card it costs less or the same, since larger batches use
it better. What has been spilled goes over PCIe at a twentieth of the card's own speed (RTX 4080 Super: 736 GB/s; PCIe 4.0 x16: 32 GB/s),
so that 5 % of the traffic gone there doubles the time."""


def _at_the_limit(report: TrialReport, ending: Ending, *, on_card: bool, asked: int) -> bool:
    """Tells whether the highest memory use seen came close to what the trial was allowed, or left less than what it ``asked`` for.

    On a card, an allocation that the allocator refused, or for which it emptied its cache, also shows it. The process's host memory
    (``Ending.peak_data_bytes``) doesn't count there.
    """
    limit = report.ceiling_bytes or report.cap_bytes
    if not limit:
        return False
    if on_card and report.uses and (report.uses[-1].ooms or report.uses[-1].retries):
        return True
    seen = report.peak_bytes if on_card else max(report.peak_bytes, ending.peak_data_bytes - report.base_bytes)
    return seen >= min(NEAR_LIMIT * limit, limit - asked)


def judge(report: TrialReport | None, ending: Ending, *, rung: Rung, needs: Needs, lost: Sequence[str] = (), taken: str = "") -> Verdict:
    """The verdict on one trial.

    ``needs``: what the trial had to do at least. ``lost``: memory failures that its logs mention. ``taken``: who else held the card when
    the trial was over, or an empty text. A trial fits only if it finished, did all its steps and its validation, ran the rung that was
    asked, stayed below its cap and on the device, and lost nothing to memory.
    """
    seen = _Seen(report=report or TrialReport(), ending=ending, rung=rung, needs=needs, lost=tuple(lost), taken=taken)
    found = (verdict for check in _CHECKS if (verdict := check(seen)) is not None)
    return next(found, _verdict(seen, Kind.FITS, "fits"))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """Everything a verdict is made of."""

    report: TrialReport
    ending: Ending
    rung: Rung
    needs: Needs
    lost: tuple[str, ...]
    taken: str

    @property
    def on_card(self) -> bool:
        return self.needs.observed.get("device") == "cuda"


def _verdict(seen: _Seen, kind: Kind, why: str, **more: Any) -> Verdict:
    peak = max(seen.report.peak_bytes, _whole_validation(seen))
    return Verdict(kind=kind, phase=more.pop("phase", seen.report.phase), why=why, peak_bytes=peak, **more)


PAGE_BYTES = 20 * MIB
"""Step by which PyTorch's segments on a card grow, expandable ones and others (c10/core/AllocatorConfig.h, kLargeBuffer)."""


def _whole_validation(seen: _Seen) -> int:
    """Bytes that the validation of the whole set needs: the trial's peak, and what is kept of the batches that the trial left out.

    On a card, too, that comes on top of what the allocator has reserved: what is kept is copied into an ever larger tensor, for which its
    cache has no place. An evaluation that was foreseen to allocate 242 of 243 MiB died, 60 MiB reserved and of no use (150 MiB with native
    segments; played survival, seed 2034, held to its cap). It grows by whole pages of 20 MiB.
    """
    report = seen.report
    peak = max((use.held_bytes for use in report.uses if use.phase == Phase.VALIDATE), default=0)
    grown = int(report.growth_bytes_per_batch * report.batches_left)
    if seen.on_card:
        grown = math.ceil(grown / PAGE_BYTES) * PAGE_BYTES
    return peak + grown if report.validation_batches else 0


def _taken(seen: _Seen) -> Verdict | None:
    """The trial ran short of memory because other processes took some of the card. A trial that fits in spite of them fits."""
    if not seen.taken or not any(check(seen) for check in (_refused, _over_the_cap, _hidden, _squeezed)):
        return None
    return _verdict(seen, Kind.CARD_TAKEN, f"others came to the card meanwhile: {seen.taken}", evidence=seen.taken)


def _refused(seen: _Seen) -> Verdict | None:
    """An allocation failed and ended the trial."""
    failed = _failure(seen.report, seen.ending, on_card=seen.on_card)
    if failed is None:
        return None
    if seen.on_card and failed.source == "host":
        failed = replace(failed, source="host_memory")
    asked = f", asking for {failed.asked_bytes / 2**20:.0f} MiB" if failed.asked_bytes else ""
    what = "too many open files" if failed.source == "files" else "out of memory"
    cure = f" ({_CURES[failed.source]} cure this, not a smaller batch)" if failed.source in _CURES else ""
    why = f"{what} in phase {seen.report.phase}{asked} ({failed.source}){cure}"
    return _verdict(seen, Kind.OUT_OF_MEMORY, why, source=failed.source, asked_bytes=failed.asked_bytes, evidence=failed.line)


def _over_the_cap(seen: _Seen) -> Verdict | None:
    """The trial got the memory it needed, which was more than the cap. Not for a trial that crashed for another reason."""
    report, cap = seen.report, seen.report.cap_bytes
    if report.failure is not None and OVER_CAP not in report.failure.types:
        return None
    over = next((use for use in report.uses if cap and use.held_bytes > cap), None)
    if over is None:
        return None
    more = format_size(over.held_bytes - cap)
    why = f"needs {format_size(over.held_bytes)} in phase {over.phase}, {more} more than the {format_size(cap)} that fit"
    return _verdict(seen, Kind.OUT_OF_MEMORY, why, phase=over.phase, source="measured", evidence=repr(over))


def _squeezed(seen: _Seen) -> Verdict | None:
    """The card's allocator had to empty its cache to serve an allocation: the trial was at the edge of the cap.

    A run has other shapes in another order, and would not have got that memory (docs/decisions/004).
    """
    use = next((use for use in seen.report.uses if use.squeezed), None)
    if use is None or seen.report.failure is not None:
        return None
    why = f"{use.squeezed} allocation(s) in phase {use.phase} came only after the allocator had emptied its cache: no room is left"
    return _verdict(seen, Kind.OUT_OF_MEMORY, why, phase=use.phase, source="measured", evidence=repr(use))


def _stalled(seen: _Seen) -> Verdict | None:
    if (seen.ending.stood_still or seen.ending.timed_out) and seen.lost:
        return _hidden(seen)  # it waits for what was lost
    if seen.ending.stood_still:
        still = f"it stood still in phase {seen.report.phase}: no output and no processor time for long (recover.stall_s)"
        return _verdict(seen, Kind.STALLED, still)
    if not seen.ending.timed_out:
        return None
    why = f"no end after {seen.ending.seconds:.0f} s, in phase {seen.report.phase}"
    return _verdict(seen, Kind.STALLED, why, evidence=seen.ending.stderr_tail)


def _not_exact(seen: _Seen) -> Verdict | None:
    """The code that accumulates or checkpoints from outside has found that it can't give the asked update here."""
    failure = seen.report.failure
    if failure is None or NOT_EXACT not in failure.types:
        return None
    said = next(line for line in failure.message.splitlines() if NOT_EXACT in line).partition(f"{NOT_EXACT}: ")[2]
    source: Source = "checkpointing" if said.startswith("checkpointing") else "accumulation"
    return _verdict(seen, Kind.ALTERED, said, source=source, evidence=failure.message)


def _no_disk(seen: _Seen) -> Verdict | None:
    """The trial could not write a file, and a disk is full: that of its run folder, of the launch's folder, or of temporary files."""
    failure, ending = seen.report.failure, seen.ending
    if not ending.full_disk or (failure is None and not ending.returncode):
        return None
    words = ending.stderr_tail if failure is None else f"{failure.message}\n{failure.traceback}"
    if not (line := maybe_full(words)):
        return None
    why = f"{ending.full_disk}, in phase {seen.report.phase} ({line}): make room there, or have fewer checkpoints kept"
    return _verdict(seen, Kind.OUT_OF_MEMORY, why, source="disk", evidence=words)


def _crashed(seen: _Seen) -> Verdict | None:
    report, ending = seen.report, seen.ending
    if report.failure is not None:
        words = report.failure.message.strip().splitlines() or ["no message"]  # the exception's name is their first word
        return _verdict(seen, Kind.CRASHED, words[0], evidence=report.failure.traceback)
    if ending.returncode == 0:
        return None
    how = f"signal {signal.Signals(-ending.returncode).name}" if ending.returncode < 0 else f"exit status {ending.returncode}"
    return _verdict(seen, Kind.CRASHED, f"ended by {how} in phase {report.phase}", evidence=ending.stderr_tail)


def _hidden(seen: _Seen) -> Verdict | None:
    """A memory failure that the trainer, a library, a thread or a worker caught: the run would lose what the trial lost."""
    if swallowed := seen.report.swallowed:
        why = f"the trainer hid a memory failure: {swallowed[0]}"
        return _verdict(seen, Kind.ALTERED, why, evidence="\n".join(swallowed))
    if not seen.lost:
        return None
    failed = memory_failure(seen.lost[0])
    source = failed.source if failed is not None else "host"
    source = "host_memory" if seen.on_card and source == "host" else source
    why = f"something was lost to memory and the trainer went on: {seen.lost[0]}"
    return _verdict(seen, Kind.OUT_OF_MEMORY, why, source=source, evidence="\n".join(seen.lost))


def _diverged(seen: _Seen) -> Verdict | None:
    if seen.report.loss_finite is not False:
        return None
    why = "the loss was not finite, or left all bounds: nothing would be learned (learning rate, precision or data; no lower rung cures it)"
    return _verdict(seen, Kind.DIVERGED, why, evidence=seen.ending.stderr_tail)


def _vacuous(seen: _Seen) -> Verdict | None:
    report = seen.report
    short = _short_of(report, seen.needs)
    if report.phase == Phase.DONE and not short:
        return None
    why = f"the trial ended in phase {report.phase}" if report.phase != Phase.DONE else f"the trial did only {short}"
    why = f"{why}: {report.hint}" if report.hint else why
    return _verdict(seen, Kind.VACUOUS, why, evidence=seen.ending.stderr_tail)


def _altered(seen: _Seen) -> Verdict | None:
    """Settings ran otherwise than told. Those that the child could not observe don't count."""
    ran, told = seen.report.observed, seen.needs.observed
    other = tuple(name for name, value in told.items() if value is not None and ran.get(name) not in (None, value))
    if not other:
        return None
    why = ", ".join(f"{name}={ran[name]} instead of {told[name]}" for name in other)
    return _verdict(seen, Kind.ALTERED, f"the trainer ran {why}", otherwise=other, evidence=repr(ran))


def _spilled(seen: _Seen) -> Verdict | None:
    """A sample takes far longer than in half the micro-batch, because the driver uses host memory. Measured only where drivers do that."""
    report, samples = seen.report, seen.rung.micro_batch
    if not report.half_step_seconds or not report.full_step_seconds or samples < 2:
        return None
    cliff = (report.full_step_seconds / samples) / (report.half_step_seconds / (samples // 2))
    if cliff <= SPILL_CLIFF:
        return None
    why = f"a sample takes {cliff:.1f} times as long as in half the micro-batch: the driver has put some of it into host memory"
    return _verdict(seen, Kind.SPILLED, why, evidence=f"{report.full_step_seconds=:.4f} {report.half_step_seconds=:.4f} {samples=}")


def _grown(seen: _Seen) -> Verdict | None:
    """The trial's own part of validation fits, but the whole set would need more than the cap."""
    report, cap, need = seen.report, seen.report.cap_bytes, _whole_validation(seen)
    if not cap or need <= max(cap, report.peak_bytes):
        return None
    why = (
        f"validation keeps {report.growth_bytes_per_batch / 2**20:.1f} MiB per batch; after all {report.validation_batches_total} "
        f"batches that is {format_size(need)}, over the cap of {format_size(cap)}"
    )
    return _verdict(seen, Kind.OUT_OF_MEMORY, why, phase=Phase.VALIDATE, source="measured", evidence=why)


_CHECKS: tuple[Callable[[_Seen], Verdict | None], ...] = (
    _taken, _refused, _over_the_cap, _stalled, _not_exact, _no_disk, _crashed, _hidden, _diverged, _vacuous,
    _altered, _squeezed, _spilled, _grown,
)  # fmt: skip
"""The first check that returns a verdict decides; if none does, the trial fits. A new reason is a check, or a part of one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """The least that a trial must have done for its verdict to mean anything."""

    optimizer_steps: int
    validation_batches: int
    train_again_batches: int = 1
    observed: Mapping[str, Value] = field(default_factory=dict)
    """Settings that must have been observed where they could be: the rung's, the device."""


def _failure(report: TrialReport, ending: Ending, *, on_card: bool) -> MemoryFailure | None:
    if report.failure is None and (ending.returncode == 0 or ending.timed_out or ending.stood_still):
        return None
    said = report.failure.message if report.failure is not None else ending.stderr_tail
    types, frames = (report.failure.types, f"\n{report.failure.traceback}") if report.failure is not None else ((), "")
    if found := memory_failure(f"{said}{frames}", types=types):
        return found
    if report.failure is None and ending.returncode == -signal.SIGKILL:
        return MemoryFailure(source="host_memory", line="killed (SIGKILL), as the kernel's out-of-memory killer does")
    if not _at_the_limit(report, ending, on_card=on_card, asked=8 * 2**20 if "can't start new thread" in said else 0):  # for its stack
        return None
    full = f"with all of its {report.ceiling_bytes or report.cap_bytes} bytes in use"
    if report.failure is None and -ending.returncode in _DEATHS_BY_FULL_MEMORY:
        name = signal.Signals(-ending.returncode).name
        return MemoryFailure(source="host", line=f"{name} {full}: a library that does not check its allocation")
    if (maybe := maybe_memory(said)) and not (ending.full_disk and maybe_full(said)):
        return MemoryFailure(source="host", line=f"{maybe[:400]} ({full})")
    return None


def _short_of(report: TrialReport, needs: Needs) -> str:
    for phase, done, needed, what in (
        (Phase.TRAIN, report.optimizer_steps, needs.optimizer_steps, "optimizer steps"),
        (Phase.VALIDATE, report.validation_batches, needs.validation_batches, "validation batches"),
        (Phase.TRAIN_AGAIN, report.train_again_batches, needs.train_again_batches, "training batches after validation"),
    ):
        if done < needed and phase not in report.absent:
            return f"{done} of {needed} {what}"
    return ""


MEMORY, SHARED, DISK = "host memory", "/dev/shm", "disk"
_FEWER = "fewer data loader workers or less prefetched"
_LARGER_SHARED = f"{_FEWER}, or a larger /dev/shm (docker run --shm-size=8g, or --ipc=host)"
_CURES: Mapping[str, str] = {
    "workers": _LARGER_SHARED, "shared_memory": _LARGER_SHARED, "files": "a higher limit (ulimit -n) or fewer data loader workers",
    "host_memory": f"{_FEWER}, a data set cached on the disk and not in memory, or a higher limit of the container or job",
    "pinned": "pin_memory=False (page-locked host memory, which WSL has little of)",
    "disk": "fewer checkpoints kept, or a larger disk (run.root)",
}  # fmt: skip
"""Source of a failure beside the device -> what cures it."""
_SOURCES: dict[str, Source] = {MEMORY: "host_memory", SHARED: "shared_memory", DISK: "disk"}


def rooms(use: HostUse, report: TrialReport, *, headroom: float, saved: int | None = None) -> list[RoomRecord]:
    """Returns each room with the need of the run and what there is for it. ``saved``: bytes on its disk that the run's saved files will
    take at once; None where nobody knows."""
    mapped = min(use.shared_mapped, use.shared_taken)
    shared = max(mapped, int(report.facts.get(HELD_AHEAD, 0)))
    there = None if use.shared_before is None else use.shared_before - max(0, use.shared_taken - shared)  # what others took meanwhile
    unseen = int(report.facts.get(HOST_BESIDE, 0) + report.facts.get(HOST_GROWTH, 0) * report.batches_left)  # the trial had none of it
    needed = use.memory_bytes + shared - mapped + unseen
    found = [
        RoomRecord(name=MEMORY, needed=needed, there=use.memory_there, headroom=headroom),
        RoomRecord(name=SHARED, needed=shared, there=there, headroom=headroom),
    ]
    return found if saved is None else [*found, RoomRecord(name=DISK, needed=saved, there=use.disk_there, headroom=headroom)]


def short_of(found: Iterable[RoomRecord]) -> RoomRecord | None:
    """Returns the first room that is too small; None if each has enough."""
    return next((one for one in found if one.there is not None and one.needed > one.there * (1 - one.headroom)), None)


def today(found: Iterable[RoomRecord], use: HostUse) -> list[RoomRecord]:
    """The rooms of an earlier trial with what there is now. ``use``: of a meter that has not begun."""
    now = {MEMORY: use.memory_there, SHARED: use.shared_before, DISK: use.disk_there}
    return [room.model_copy(update={"there": room.there and now.get(room.name)}) for room in found]


def verdict_on(room: RoomRecord, fitted: Verdict) -> Verdict:
    """The verdict on a trial that fits otherwise, for want of that room."""
    source, needed, there = _SOURCES[room.name], format_size(room.needed), format_size(room.there or 0)
    why = f"the run needs {needed} of {room.name}, and {there} are there for it ({room.headroom:.0%} kept free): {_CURES[source]}"
    return Verdict(kind=Kind.OUT_OF_MEMORY, phase=fitted.phase, why=why, source=source, peak_bytes=fitted.peak_bytes, evidence=why)
