"""Finds which kind of failure a log tells of. Pure. What a line means is known by ``shared.memory_failures`` and ``run.cause``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

from launcher.adapter import log_line
from launcher.adapter.progress import Progress
from launcher.explain import known
from launcher.explain.figures import CardFigures, read
from launcher.explain.known import table
from launcher.explain.part import LAST_LINES
from launcher.explain.plain import said
from launcher.run.cause import from_error, last_chain
from launcher.shared import write_failures
from launcher.shared.memory_failures import MemoryFailure, maybe_memory, memory_failure, memory_failures
from launcher.shared.sizes import GIB, MIB

Kind = Literal[
    "allocator", "fragmentation", "giant", "neighbours", "spilled", "driver", "library", "nccl", "pinned", "host", "killer", "killed",
    "shm", "workers", "foreign", "maybe", "other", "nothing",
]  # fmt: skip
"""What failed; known.yaml says what each is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFailure:
    """The failure that a log ends with."""

    kind: Kind
    line: str = ""
    """The line that says so."""
    chain: str = ""
    """The traceback that it stands in; the whole log if there is none."""
    figures: CardFigures = field(default_factory=CardFigures)
    went_on: bool = False
    """The program got over it."""


_NEXT = re.compile(r"Traceback|out of memory|Error: ")
"""Begins what is no more of a message."""
_CARD = re.compile(r"CUDA:\d+ \([^()]*, (\d+)MiB\)")
"""Ultralytics' words for its card."""


def find(lines: list[str]) -> LogFailure:
    """Finds the failure that the log ends with. ``lines``: plain ones."""
    text, kinds = "\n".join(lines), table().kinds
    chain = last_chain(text)
    spoken = _spoken(chain.splitlines())
    failure = _failure(spoken)
    if failure is None and chain != text and not _last(kinds["other"].signs, spoken):  # its last traceback was cut
        chain, spoken = text, _spoken(lines)
        failure = _failure(spoken)
    of_host = failure is None or failure.source in ("host", "workers")
    if of_host and (killer := _last(kinds["killer"].signs, lines)):
        return LogFailure(kind="killer", line=killer, chain=chain)
    if of_host and (foreign := _last("|".join(one.signs for one in table().errors if one.on_card), spoken)):
        return LogFailure(kind="foreign", line=foreign, chain=chain)
    if failure is not None:
        return _of_memory(failure, spoken, chain, went_on=_went_on(text, failure.line))
    told: tuple[Kind, ...] = ("killed", "workers")
    for kind in told:
        if line := _last(kinds[kind].signs, lines):
            return LogFailure(kind=kind, line=line, chain=chain)
    return _of_another_kind(chain, spoken)


def _spoken(lines: list[str]) -> list[str]:
    advice = table().kinds["nothing"].signs
    return [line for line in said(lines) if not re.search(advice, line) or "Tried to allocate" in line]


def _failure(spoken: Sequence[str]) -> MemoryFailure | None:
    """The last one; of the allocator's rather one that tells a size than what somebody said of it."""
    last = memory_failure("\n".join(spoken), last=True)
    if last is None:
        cut = _last(table().kinds["allocator"].signs, spoken)
        return MemoryFailure(source="allocator", line=cut, asked_bytes=None) if cut else None
    after = "\n".join(spoken).rpartition(last.line)[2]
    if last.source != "allocator" or last.asked_bytes or re.search(table().kinds["allocator"].signs, after):
        return last
    return next((one for one in reversed(memory_failures(spoken)) if one.source == "allocator" and one.asked_bytes), last)


def _of_memory(failure: MemoryFailure, spoken: Sequence[str], chain: str, *, went_on: bool) -> LogFailure:
    at = next(number for number, line in enumerate(spoken) if line.strip().startswith(failure.line[:400]))
    below = list(takewhile(lambda line: not _NEXT.search(line), spoken[at + 1 : at + 13]))
    figures = read(" ".join([spoken[at], *below]))
    kind = _kind(failure, figures, chain, around=" ".join(spoken[max(0, at - 3) : at + 6]))
    return LogFailure(kind=kind, line=spoken[at].strip(), chain=chain, figures=figures, went_on=went_on)


def _kind(failure: MemoryFailure, figures: CardFigures, chain: str, *, around: str) -> Kind:
    kinds = table().kinds
    match failure.source:
        case "workers":
            killed: Kind = "killed" if "signal: Killed" in failure.line else "workers"
            return "shm" if re.search(kinds["shm"].signs, chain) else killed
        case "pinned" | "host":
            return failure.source
        case "driver":
            library: Kind = "library" if re.search(kinds["library"].signs, failure.line) else "driver"
            return "nccl" if re.search(kinds["nccl"].signs, around) else library
    return _of_allocator(figures)


def _of_allocator(figures: CardFigures) -> Kind:
    held, total = figures.reserved, figures.total
    if held is not None and total is not None and held > total:
        return "spilled"
    asked, idle = figures.asked, figures.idle
    # A rest is also what isn't told of this process; outside PyTorch's allocator it mostly holds less than that (context, libraries).
    least = max(GIB, (total or 0) // (2 if figures.ours is None else 4))
    if figures.others is not None and total and figures.others >= least and (figures.free or 0) < (asked or GIB):
        return "neighbours"
    if figures.giant:
        return "giant"
    if asked is not None and idle is not None and held and idle >= max(asked, held // 10, 32 * MIB):
        return "fragmentation"
    return "allocator"


def _went_on(text: str, line: str) -> bool:
    """Tells whether the log speaks of training after the line, without an error."""
    after = text[text.rindex(line[:400]) :].splitlines()[1:LAST_LINES]
    return "Traceback" not in text and sum(log_line.read(one, Progress()).progress != Progress() for one in after) > 1


def _of_another_kind(chain: str, spoken: Sequence[str]) -> LogFailure:
    if unwritten := _last(write_failures.WHY.pattern, spoken):
        return LogFailure(kind="other", line=unwritten, chain=chain)
    if doubtful := maybe_memory("\n".join(spoken)):
        return LogFailure(kind="maybe", line=doubtful, chain=chain)
    kinds = table().kinds
    error = from_error(chain)[0].strip() if 'File "' in chain else ""
    if not re.search(kinds["other"].signs, error):
        found = (line for line in reversed(spoken) if re.search(kinds["other"].signs, line) or known.match(table().errors, line))
        error = next(found, error).strip()
    row = re.search(kinds["spilled"].signs, "\n".join(reversed(spoken)), re.MULTILINE)
    if not error and row and (card := _CARD.search("\n".join(spoken))):
        figures = CardFigures(total=int(card[1]) * MIB, reserved=int(float(row["held"]) * 10**9))
        if _of_allocator(figures) == "spilled":
            return LogFailure(kind="spilled", line=row[0].strip(), chain=chain, figures=figures)
    return LogFailure(kind="other" if error else "nothing", line=error, chain=chain)


def _last(pattern: str, lines: Sequence[str]) -> str:
    return next((line.strip() for line in reversed(lines) if re.search(pattern, line.strip())), "")
