"""Finds what ended a full run and in which phase, with the line of its output that shows it. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from autofit_launcher.adapter.protocol import Weights
from autofit_launcher.common.files import FULL_DISK, READ_ONLY, line_of
from autofit_launcher.common.memory_failures import ECHO, OF_MACHINE, MemoryFailure, maybe_memory, memory_failure
from autofit_launcher.common.report import Phase

FRAME = re.compile(r'File "([^"]+)", line \d+, in (\S+)')
_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("another exception occurred:", "direct cause of the following exception:", "Original")
_STARTER = re.compile(r"^(?:\w+\.)*(?:ChildFailedError|CalledProcessError|ProcessExitedException)\b", re.MULTILINE)
"""The error of a program that started the training (torchrun, accelerate, mp.spawn), in a traceback of its own."""
_CHILD = re.compile(r"Root Cause.{0,500}?exitcode\s*: -(\d+)|died with <Signals\.\w+: (\d+)>|terminated with signal (SIG\w+)", re.DOTALL)
"""The signal that such a program says its child died of."""
_RANK = re.compile(r"^\[rank\d+\]: ?")
LAST_LINES = 60
_TRAINS = frozenset({"train", "training", "fit"})
_VALIDATES = frozenset({"val", "validate", "validation", "validating", "valid", "eval", "evaluate", "evaluation"})
_SAVED = frozenset({"checkpoint", "checkpoints", "ckpt", "model", "pretrained", "weights", "state", "optimizer"})
_SAVES = ("torch/serialization.py", "safetensors/torch.py")
_HARDWARE = re.compile(
    r"uncorrectable (NVLink|ECC)|unspecified launch failure|[Hh]ardware stack error|fallen off the bus|GPU is lost"
    r"|[Ww]atchdog caught collective operation timeout|NCCL error: (remote process exited|unhandled system error)"
)
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
_DEATHS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)


class Ended(StrEnum):
    """Causes of an attempt's end."""

    DONE = "done"
    OUT_OF_MEMORY = "out_of_memory"  # of the device: allocator, driver, libraries; on a CPU budget of the host
    HOST_MEMORY = "host_memory"  # beside a card: loader workers, open files, shared or page-locked memory, the kernel's killer
    CARD_TAKEN = "card_taken"  # memory ran out that others had taken: says nothing of the rung
    KILLED = "killed"  # SIGKILL from nobody known
    DIVERGED = "diverged"  # the loss was not finite
    STALLED = "stalled"
    CARD_FAILED = "card_failed"  # the card, or the link between cards
    UNWRITABLE = "unwritable"  # its files could not be written: a full disk, a mount that went read-only, a mode that was changed
    CRASHED = "crashed"
    INTERRUPTED = "interrupted"  # a person, a scheduler, or autofit itself was killed


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnd:
    """Everything that was seen of a run and its end from outside."""

    returncode: int
    words: str
    """The ends of its standard error and output."""
    ended_for: Ended | None = None
    """The reason for which autofit itself ended the run; None where it didn't."""
    not_finite: str = ""
    """The run's last report of its loss, if that is not finite; else empty."""
    divergence: str = ""
    """The line in which the trainer says that it has diverged; else empty."""
    weights: Weights | None = None
    """The weights it saved last; None if they couldn't be looked at."""
    on_card: bool = False
    at_limit: bool = False
    """The run has used all of its budget."""
    oom_kills: int = 0
    """Processes that the kernel killed for lack of memory during the run."""
    unwritable: str = ""
    """The reason why its files couldn't be written afterwards; empty if they could."""
    taken: str = ""
    """The process that held the card afterwards; empty if no other did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """The cause of a run's end."""

    ended: Ended
    phase: str
    evidence: str = ""
    failure: MemoryFailure | None = None


def find(end: RunEnd) -> Cause:
    """Finds what ended the run. If others had taken the card's memory, a memory failure is their doing (``CARD_TAKEN``)."""
    phase = phase_of(end.words)
    if end.returncode == 0 and end.ended_for is None:
        spoiled = f"the weights that it saved last are not finite: {end.weights.path}" if end.weights and not end.weights.finite else ""
        if diverged := end.not_finite or spoiled:
            return Cause(ended=Ended.DIVERGED, phase=phase, evidence=diverged)
        return Cause(ended=Ended.DONE, phase=Phase.DONE, evidence=_got_over(end.words))
    lost = _failure(end) if end.ended_for is Ended.STALLED else None
    if lost is not None and lost.source in OF_MACHINE:
        return Cause(ended=_of_memory(lost, end), phase=phase, evidence=f"it waited for what was lost: {lost.line}", failure=lost)
    if end.ended_for is not None:
        return Cause(ended=end.ended_for, phase=phase)
    if (failure := _failure(end)) is not None:
        return Cause(ended=_of_memory(failure, end), phase=phase, evidence=failure.line, failure=failure)
    if unwritten := _unwritten(end):
        return Cause(ended=Ended.UNWRITABLE, phase=phase, evidence=unwritten)
    if end.divergence:
        return Cause(ended=Ended.DIVERGED, phase=phase, evidence=end.divergence)
    if (number := _signal_of(end)) in _FROM_OUTSIDE:
        said = f"{number.name} from outside; the kernel has told of no kill for want of memory"
        return Cause(ended=Ended.KILLED, phase=phase, evidence=said)
    if end.on_card and (line := line_of(_HARDWARE, last_chain(end.words))):
        return Cause(ended=Ended.CARD_FAILED, phase=phase, evidence=line)
    return Cause(ended=Ended.CRASHED, phase=phase, evidence=_of_crash(end))


def gone_on_without(lost: Sequence[str], words: str, ended_by: MemoryFailure | None) -> list[str]:
    """Lines of a run's logs about memory, except those in the traceback that ended it for want of memory."""
    last = last_chain(words) if ended_by is not None and _TRACEBACK in words else ""
    return [line for line in lost if line not in last and (ended_by is None or line != ended_by.line)]


def _got_over(words: str) -> str:
    """The error of a traceback among the last words of a run that ended well all the same: a process of its own may have died of it."""
    *before, last = words.split(_TRACEBACK)
    lines = last.splitlines()
    if not before or len(lines) > LAST_LINES or "Exception ignored in" in (before[-1].splitlines() or [""])[-1]:
        return ""
    return next((line.strip()[:400] for line in lines[1:] if line and not line[0].isspace()), "")


def _of_crash(end: RunEnd) -> str:
    """Evidence for a crash: the trainer's error; otherwise the exit status first, as its last line may only be progress."""
    said = _last_line(end.words)
    if _TRACEBACK in end.words:
        return from_error(last_chain(end.words))[0][:400] or said
    number = _signal_of(end)
    how = number.name if number is not None else f"exit status {end.returncode}"
    return f"{how}, without a traceback; its last line: {said}" if said else f"{how}, without a word"


def _unwritten(end: RunEnd) -> str:
    """The evidence that the run could not write its files, by what was seen or by its output; empty if there is none."""
    told = line_of(READ_ONLY, end.words) or line_of(FULL_DISK, end.words)
    if not end.unwritable or _signal_of(end) in _FROM_OUTSIDE:  # that which a signal ended didn't end of what was seen
        return told
    return f"{end.unwritable}; its last words: {told or _last_line(end.words)}"


def _of_memory(failure: MemoryFailure, end: RunEnd) -> Ended:
    if end.taken and end.on_card:
        return Ended.CARD_TAKEN
    if failure.source in OF_MACHINE or (end.on_card and failure.source == "host"):
        return Ended.HOST_MEMORY
    return Ended.OUT_OF_MEMORY


def _failure(end: RunEnd) -> MemoryFailure | None:
    """The memory failure that ended the run, or None: the last one in its output, or a fatal signal with all its memory in use."""
    if found := memory_failure(last_chain(end.words), last=True):
        return found
    number = _signal_of(end)
    if number is signal.SIGKILL and end.oom_kills:
        return MemoryFailure(source="host", line="killed (SIGKILL) by the kernel for want of memory (/proc/vmstat oom_kill)")
    if not end.at_limit:
        return None
    if number in _DEATHS:
        return MemoryFailure(source="host", line=f"{number.name} with all of its memory in use")
    if (maybe := maybe_memory(end.words)) and not line_of(FULL_DISK, end.words) and not end.unwritable:
        return MemoryFailure(source="host", line=maybe[:400])
    return None


def _signal_of(end: RunEnd) -> signal.Signals | None:
    """The signal that ended the run, from its negative exit status (``subprocess``), one above 128 (shells), or its starter's words."""
    number = -end.returncode if end.returncode < 0 else end.returncode - 128
    if number in set(signal.Signals):
        return signal.Signals(number)
    chain = _chains(end.words)[-1]
    said = _CHILD.search(chain) if _STARTER.search(chain) else None
    if said is None:
        return None
    return signal.Signals[said[3]] if said[3] else signal.Signals(int(said[1] or said[2]))


def phase_of(words: str) -> str:
    """The phase of the last traceback, by the names of its functions, innermost first; training if none of them tells.

    One that does several by turns (``_maybe_log_save_evaluate``) tells nothing.
    """
    frames = FRAME.findall(last_chain(words))
    for file, name in reversed(frames):
        parts = frozenset(re.split(r"[_.\W]+", name.lower()))
        if "save" in parts and (parts & _SAVED or file.endswith(_SAVES)):
            return Phase.SAVE
        if parts & _VALIDATES and not parts & (_TRAINS | {"save"}):
            return Phase.VALIDATE
    return Phase.TRAIN


def last_chain(words: str) -> str:
    """The last traceback with those that caused it; the whole text if there is none.

    What torchrun and its like say when their child has failed is not it, nor what the child's neighbours said.
    """
    chains = _chains(words)
    if not _STARTER.search(chains[-1]) or _CHILD.search(chains[-1]):
        return chains[-1]
    own = next((chain for chain in reversed(chains[:-1]) if not ECHO.search(from_error(chain)[0])), None)
    return own if own is not None and len(from_error(own)) <= LAST_LINES else chains[-1]


def _chains(words: str) -> list[str]:
    """Splits the text into tracebacks, each with those that caused it and what was said after it; the whole text if there is none."""
    _, *pieces = words.split(_TRACEBACK)
    chains: list[str] = []
    for piece in pieces:
        if chains and chains[-1].rstrip().endswith(_CHAINED):
            chains[-1] += piece
        else:
            chains.append(piece)
    return chains or [words]


def from_error(chain: str) -> list[str]:
    """The lines of a traceback from its error on."""
    lines = [_RANK.sub("", line) for line in chain.splitlines()]
    frames = [number for number, line in enumerate(lines) if FRAME.search(line)]
    below = lines[frames[-1] + 1 if frames else 0 :]
    return below[next((number for number, line in enumerate(below) if line and not line[0].isspace()), 0) :] or [""]


def _last_line(words: str) -> str:
    return next((line.strip()[:400] for line in reversed(words.splitlines()) if line.strip()), "")
