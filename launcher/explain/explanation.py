"""Puts the explanation of a log together: what failed, where, for want of how much, and what to change in its trainer's own words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.explain import known, part, plain, trouble
from launcher.explain.figures import CardFigures
from launcher.explain.known import Dialect
from launcher.explain.part import Part
from launcher.explain.trouble import LogFailure, Trouble
from launcher.shared.sizes import format_size

_OF_A_STEP: tuple[Part, ...] = ("forward", "backward", "optimizer", "training", "validation")
_NO_LOWER_RUNG = (Trouble.OTHER, Trouble.NOTHING, Trouble.SHM, Trouble.WORKERS, Trouble.PINNED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The explanation of a log."""

    kind: Trouble
    memory: bool | None
    """True: memory ran out; None: it can't be told."""
    headline: str
    line: str
    """The log's own words."""
    number: int
    """Number of that line, from 1; 0: there is none."""
    phase: Part
    figures: CardFigures
    trainer: str
    """Whose log it seems to be; empty: any PyTorch training's."""
    likely: str
    """What most likely takes the memory, or what the error means; empty where that isn't known."""
    changes: tuple[str, ...]
    """What to change, best first."""
    may_fit: bool
    """A launch with autofit may find what fits."""
    unknown: tuple[str, ...]
    """Questions that the log leaves open."""


def explain(text: str) -> Explanation:
    """Explains a whole log."""
    lines = plain.plain(text)
    failure = trouble.find(lines)
    dialect = known.speaker(text)
    number = next((at for at in range(len(lines), 0, -1) if failure.line and lines[at - 1].strip() == failure.line), 0)
    where = part.find(failure.chain, lines[: number or None]) if failure.kind.of_memory is not False else ""
    return Explanation(
        kind=failure.kind,
        memory=failure.kind.of_memory,
        headline=f"{known.kinds()[failure.kind].headline}{'; the training got over it and went on' if failure.went_on else ''}",
        line=failure.line,
        number=number,
        phase=where,
        figures=failure.figures,
        trainer=dialect.trainer,
        likely=_likely(failure, where),
        changes=tuple(dict.fromkeys(filter(None, _changes(failure, where, dialect)))),
        may_fit=failure.kind not in _NO_LOWER_RUNG,
        unknown=tuple(_unknown(failure, where)),
    )


def _on_processor(failure: LogFailure, where: Part) -> bool:
    """PyTorch itself asked for host memory in a step: the training runs on the processor."""
    return failure.kind is Trouble.HOST and "DefaultCPUAllocator" in failure.line and where in _OF_A_STEP


def _likely(failure: LogFailure, where: Part) -> str:
    figures = failure.figures
    if failure.kind is Trouble.OTHER:
        return known.meaning(failure.line)
    if _on_processor(failure, where):
        return f"the training runs on the processor: {known.parts()[where].likely}"
    if failure.kind is Trouble.ALLOCATOR:
        return "" if figures.contradict else (known.frame(failure.chain) or known.parts()[where]).likely
    return known.kinds()[failure.kind].likely.format(idle=format_size(figures.idle or 0), others=format_size(figures.others or 0))


def _changes(failure: LogFailure, where: Part, dialect: Dialect) -> Iterator[str]:
    told = known.kinds()[failure.kind]
    yield told.first
    for one in _wanted(failure, where):
        yield dialect.changes.get(one, "")
    yield told.last


def _wanted(failure: LogFailure, where: Part) -> Sequence[str]:
    told, here = known.kinds()[failure.kind], known.parts()[where].changes
    frame = known.frame(failure.chain) if failure.kind is Trouble.ALLOCATOR else None
    if frame is not None and frame.changes:
        return frame.changes
    return here if told.on_card or _on_processor(failure, where) else told.changes


def _unknown(failure: LogFailure, where: Part) -> Iterator[str]:
    """Sentences on what the log leaves open."""
    figures, on_card = failure.figures, known.kinds()[failure.kind].on_card
    if figures.asked and figures.total and figures.asked > figures.total:
        yield f"One tensor of {format_size(figures.asked)} is more than the whole card has: a shape, a length or a batch is far too large."
    elif on_card and figures.contradict:
        yield (
            f"It says that {format_size(figures.free or 0)} were free, more than it asked for. Who else took the card just then, or which "
            "limit stood before it (Windows' page file, MIG, a quota), the log doesn't say."
        )
    if (on_card or failure.kind is Trouble.HOST) and not where:
        yield "In which part of the training it failed can't be told from the log."
    if failure.kind is Trouble.MAYBE:
        yield "A trial with a smaller batch decides it: if that works, it was memory. nvidia-smi just before the failure shows it, too."
    if failure.kind is Trouble.OTHER and not known.meaning(failure.line):
        yield "What the error means isn't known here; nothing in the log speaks of memory."
