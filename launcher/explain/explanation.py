"""Puts the explanation of a log together: what failed, where, for want of how much, and what to change in its trainer's own words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.adapter import log_line
from launcher.adapter.progress import Progress
from launcher.explain import known, part, plain, trouble
from launcher.explain.figures import CardFigures
from launcher.explain.known import Dialect, table
from launcher.explain.part import Part
from launcher.explain.trouble import LogFailure, Trouble
from launcher.shared.sizes import format_size

_OF_A_STEP: tuple[Part, ...] = ("forward", "backward", "optimizer", "training", "validation")
_NO_LOWER_RUNG = (Trouble.OTHER, Trouble.FOREIGN, Trouble.NOTHING, Trouble.SHM, Trouble.WORKERS, Trouble.PINNED)


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


MOST_CHARACTERS = 1 << 20
"""Of a log's end, in which its failure is looked for."""


def explain(text: str) -> Explanation:
    """Explains a whole log."""
    lines = plain.plain(text[-MOST_CHARACTERS:])
    failure = trouble.find(lines)
    told, dialect = table().kinds[failure.kind], known.speaker(text)
    before = lines[: next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip() == failure.line), None)]
    where = part.find(failure.chain, before) if failure.kind.of_memory is not False else ""
    place = text.rfind(failure.line) if failure.line else -1
    return Explanation(
        kind=failure.kind,
        memory=failure.kind.of_memory,
        headline=f"{told.headline}{'; the training got over it and went on' if failure.went_on else ''}",
        line=failure.line,
        number=text.count("\n", 0, place) + 1 if place >= 0 else 0,
        phase=where,
        figures=failure.figures,
        trainer=dialect.trainer,
        likely=_likely(failure, where),
        changes=tuple(dict.fromkeys(filter(None, _changes(failure, where, dialect)))),
        may_fit=failure.kind not in _NO_LOWER_RUNG,
        unknown=tuple(_unknown(failure, where, before)),
    )


def _on_processor(failure: LogFailure, where: Part) -> bool:
    """PyTorch itself asked for host memory in a step: the training runs on the processor."""
    return failure.kind is Trouble.HOST and "DefaultCPUAllocator" in failure.line and where in _OF_A_STEP


def _meaning(failure: LogFailure) -> str:
    return (known.match(table().errors, failure.line) or known.Known()).means


def _frame(failure: LogFailure) -> known.Known:
    of_allocator = failure.kind in (Trouble.ALLOCATOR, Trouble.GIANT)
    return (known.match(table().frames, failure.chain) if of_allocator else None) or known.Known()


def _likely(failure: LogFailure, where: Part) -> str:
    figures = failure.figures
    if failure.kind in (Trouble.OTHER, Trouble.FOREIGN):
        return _meaning(failure)
    if _on_processor(failure, where):
        return f"the training runs on the processor: {table().parts[where].likely}"
    if failure.kind is Trouble.ALLOCATOR and figures.contradict:
        return ""
    told = _frame(failure).likely or table().kinds[failure.kind].likely or table().parts[where].likely
    sizes = {"asked": figures.asked, "idle": figures.idle, "others": figures.others}
    return told.format(**{name: format_size(size or 0) for name, size in sizes.items()})


def _changes(failure: LogFailure, where: Part, dialect: Dialect) -> Iterator[str]:
    told, here = table().kinds[failure.kind], table().parts[where].changes
    of_kind = () if _on_processor(failure, where) else told.changes
    yield told.first
    for one in _frame(failure).changes or of_kind or (here if told.on_card or _on_processor(failure, where) else ()):
        yield dialect.changes.get(one, "")
    yield told.last


def _unknown(failure: LogFailure, where: Part, before: Sequence[str]) -> Iterator[str]:
    """Sentences on what the log leaves open."""
    figures, on_card = failure.figures, table().kinds[failure.kind].on_card
    if figures.asked and figures.total and figures.asked > figures.total:
        yield f"One tensor of {format_size(figures.asked)} is more than the whole card has: a shape, a length or a batch is far too large."
    elif failure.kind is not Trouble.GIANT and on_card and figures.contradict:
        yield (
            f"It says that {format_size(figures.free or 0)} were free, more than it asked for. Who else took the card just then, or which "
            "limit stood before it (Windows' page file, MIG, a quota), the log doesn't say."
        )
    if (on_card or failure.kind is Trouble.HOST) and not where:
        yield "In which part of the training it failed can't be told from the log."
    if failure.kind.of_memory and any(log_line.read(line, Progress()).loss_finite is False for line in before[-part.LAST_LINES :]):
        yield "Its losses were no finite numbers before that, and no memory cures it. Why (learning rate, fp16, data) the log doesn't say."
    if failure.kind is Trouble.MAYBE:
        yield "A trial with a smaller batch decides it: if that works, it was memory. nvidia-smi just before the failure shows it, too."
    if failure.kind is Trouble.OTHER and not _meaning(failure):
        yield "What the error means isn't known here; nothing in the log speaks of memory."
