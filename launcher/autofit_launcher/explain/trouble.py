"""Finds which kind of failure a log tells of. Pure. What a line means is known by ``common.memory_failures`` and ``full_run.cause``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from autofit_launcher.adapter import progress
from autofit_launcher.common import files
from autofit_launcher.common.memory_failures import MemoryFailure, asked_bytes, maybe_memory, memory_failure, spoken
from autofit_launcher.common.report import Phase
from autofit_launcher.common.sizes import GIB, MIB, UNITS
from autofit_launcher.explain.known import match, table
from autofit_launcher.explain.plain import SOURCE
from autofit_launcher.full_run.cause import FRAME, from_error, last_chain, phase_of

_SIZE = r"(\d{1,12}(?:[.,]\d{1,3})?)([KMGT]?i?B|bytes)"
_FIGURES = {
    "asked": rf"(?:toallocate|Requested:){_SIZE}",
    "total": rf"{_SIZE}(?:total|ofwhich)|capaci?ty(?:of)?{_SIZE}|limit:{_SIZE}Free",
    "free": rf"{_SIZE}(?:is)?free(?!\()|Free\(accordingtoCUDA\):{_SIZE}",
    "allocated": rf"{_SIZE}(?:is)?(?:already)?allocated|allocated:{_SIZE}",
    "reserved": rf"{_SIZE}reservedintotal",
    "unallocated": rf"{_SIZE}(?:is)?reserved(?:byPyTorch)?butunallocated|{_SIZE}cached",  # "cached" up to PyTorch 1.3
    "ours": rf"thisprocesshas{_SIZE}|{_SIZE}inusebythisprocess",
}
"""Words beside each figure, in a message without white space and quotes: people and terminals break it anywhere."""
_UNITS = {unit.lower(): size for unit, size in UNITS.items()}
LAST_LINES = 200
"""Lines that are read of what was printed before a failure: the rest is long past."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardFigures:
    """A message's figures of a card's memory, in bytes; None: it doesn't say."""

    asked: int | None = None
    total: int | None = None
    free: int | None = None
    allocated: int | None = None
    """Bytes of PyTorch's live tensors."""
    reserved: int | None = None
    """Bytes held by PyTorch's allocator, in use or not."""
    ours: int | None = None
    """Bytes held by the process in all, its CUDA context and libraries included."""
    others: int | None = None
    """Bytes of the card that neither this process holds nor anybody could take."""

    @property
    def idle(self) -> int:
        """Bytes reserved and not in use."""
        return self.reserved - self.allocated if self.reserved is not None and self.allocated is not None else 0


def figures_in(message: str) -> CardFigures:
    text = re.sub(r"[\s>*`|]+", "", message)
    found = {name: _bytes(match) for name, pattern in _FIGURES.items() if (match := re.search(pattern, text, re.IGNORECASE))}
    told = {name: size for name, size in found.items() if size < 2**50}  # drivers say 2**34 GiB where they don't know
    asked, unallocated = told.pop("asked", None) or asked_bytes(message), told.pop("unallocated", None)
    if unallocated is not None and "allocated" in told:
        told.setdefault("reserved", told["allocated"] + unallocated)
    total, free, held = told.get("total"), told.get("free"), told.get("ours", told.get("reserved"))
    rest = max(0, total - free - held) if total is not None and free is not None and held is not None else None
    return CardFigures(asked=asked, others=rest, **told)


def _bytes(match: re.Match[str]) -> int:
    number, unit = filter(None, match.groups())
    return int(float(number.replace(",", ".")) * _UNITS.get(unit.lower(), 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFailure:
    """The failure that a log ends with."""

    kind: str
    """A name of ``Table.kinds``."""
    line: str = ""
    """The line that says so."""
    chain: str = ""
    """The traceback that it stands in; the whole log if there is none."""
    figures: CardFigures = field(default_factory=CardFigures)


def find(lines: list[str]) -> LogFailure:
    """Finds the failure that the log ends with. ``lines``: plain ones."""
    text, kinds = "\n".join(lines), table().kinds
    chain = last_chain(text)
    words = _spoken(chain.splitlines())
    failure = _failure(words)
    if failure is None and chain != text and not _last(kinds["other"].signs, words):  # its last traceback was cut
        chain, words = text, _spoken(lines)
        failure = _failure(words)
    if failure is None or failure.source in ("host", "workers"):
        on_card = "|".join(one.signs for one in table().errors if one.on_card)
        for kind, signs, said in (("killer", kinds["killer"].signs, lines), ("foreign", on_card, words)):
            if line := _last(signs, said):
                return LogFailure(kind=kind, line=line, chain=chain)
    if failure is not None:
        return _of_memory(failure, words, chain)
    for kind in ("killed", "workers"):
        if line := _last(kinds[kind].signs, lines):
            return LogFailure(kind=kind, line=line, chain=chain)
    return _of_another_kind(chain, words)


def _spoken(lines: list[str]) -> list[str]:
    """The program's own words: without the frames of tracebacks, the source around them, and advice."""
    advice = table().kinds["nothing"].signs
    kept = (line for line in spoken(lines) if not SOURCE.match(line))
    return [line for line in kept if not re.search(advice, line) or "Tried to allocate" in line]


def _failure(spoken: Sequence[str]) -> MemoryFailure | None:
    """The last one, else the last line that holds what the allocator says behind its first words."""
    if (last := memory_failure("\n".join(spoken), last=True)) is not None:
        return last
    cut = _last(table().kinds["allocator"].signs, spoken)
    return MemoryFailure(source="allocator", line=cut) if cut else None


def _of_memory(failure: MemoryFailure, spoken: Sequence[str], chain: str) -> LogFailure:
    at = next(number for number, line in enumerate(spoken) if line.strip().startswith(failure.line[:400]))
    below = takewhile(lambda line: not re.search(r"Traceback|Error: |(CUDA|HIP) out of memory", line), spoken[at + 1 : at + 25])
    figures = figures_in(" ".join([spoken[at], *below]))
    kind = _kind(failure, figures, chain, around=" ".join(spoken[max(0, at - 3) : at + 6]))
    return LogFailure(kind=kind, line=spoken[at].strip(), chain=chain, figures=figures)


def _kind(failure: MemoryFailure, figures: CardFigures, chain: str, *, around: str) -> str:
    told = {"workers": (("shm", chain), ("killed", failure.line)), "driver": (("nccl", around), ("library", failure.line))}
    if failure.source == "allocator":
        return _of_allocator(figures)
    return next((kind for kind, text in told.get(failure.source, ()) if re.search(table().kinds[kind].signs, text)), failure.source)


def _of_allocator(figures: CardFigures) -> str:
    asked, total, held = figures.asked or 0, figures.total or 0, figures.reserved or 0
    if total and held > total:
        return "spilled"
    # A rest is also what isn't told of this process; outside PyTorch's allocator it mostly holds less than that (context, libraries).
    least = max(GIB, total // (2 if figures.ours is None else 4))
    if total and (figures.others or 0) >= least and (figures.free or 0) < (asked or GIB):
        return "neighbours"
    if asked >= max(8 * GIB, (total or 32 * GIB) // 2):  # no sum of many, and little that a smaller batch cures
        return "giant"
    if asked and held and figures.idle >= max(asked, held // 10, 32 * MIB):
        return "fragmentation"
    return "allocator"


def _of_another_kind(chain: str, spoken: Sequence[str]) -> LogFailure:
    if unwritten := _last(files.WHY.pattern, spoken):
        return LogFailure(kind="other", line=unwritten, chain=chain)
    if doubtful := maybe_memory("\n".join(spoken)):
        return LogFailure(kind="maybe", line=doubtful, chain=chain)
    signs = table().kinds["other"].signs
    error = from_error(chain)[0].strip() if 'File "' in chain else ""
    if not re.search(signs, error):
        found = (line for line in reversed(spoken) if re.search(signs, line) or match(table().errors, line))
        error = next(found, error).strip()
    return LogFailure(kind="other" if error else "nothing", line=error, chain=chain)


def _last(pattern: str, lines: Sequence[str]) -> str:
    """The last line that holds it."""
    return next((line.strip() for line in reversed(lines) if re.search(pattern, line.strip())), "")


def part_of(chain: str, before: Sequence[str]) -> str:
    """The name of a part of ``Table.parts``. ``chain``: the traceback; ``before``: the lines of the log up to the failure."""
    parts, places = table().parts, list(_places(chain))
    if phase_of(chain) in (Phase.VALIDATE, Phase.FINISH) or any(re.search(parts["validation"].signs, place) for place in places):
        return "validation"
    part = ""
    for place in places:
        now = next((name for name, one in parts.items() if one.signs and re.search(one.signs, place)), "")
        again = part == "backward" and now in ("forward", "setup", "data")  # what is computed again for checkpointing
        if now and not again and not (now == "setup" and part in ("forward", "optimizer")):
            part = now
    printed = _by_progress(before)
    return printed if not part or (part == "forward" and printed == "validation") else part


def _places(chain: str) -> Iterator[str]:
    """Yields each frame of a traceback and its source line."""
    lines = chain.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if match := FRAME.search(line):
            yield f"{match[1]} in {match[2]}"
            if after and not FRAME.search(after):
                yield f": {after.strip()}"


def _by_progress(before: Sequence[str]) -> str:
    part = ""
    for line in before[-LAST_LINES:]:
        if re.search(table().parts["validation"].signs, line):
            part = "training" if "100%" in line else "validation"
        elif (said := progress.read(line)) is not None:
            part = (
                "validation" if said.phase == progress.VALIDATE else "training" if said.step is not None or said.loss is not None else part
            )
    return part
