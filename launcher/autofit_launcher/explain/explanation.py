"""Puts the explanation of a log together: what failed, where, for want of how much, and what to change in its trainer's own words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autofit_launcher.adapter import log_line
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.common.sizes import format_size
from autofit_launcher.explain import known, plain, trouble
from autofit_launcher.explain.known import Known, table
from autofit_launcher.explain.trouble import CardFigures, LogFailure


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The explanation of a log."""

    kind: str
    memory: bool | None
    """True: memory ran out; None: it can't be told."""
    headline: str
    line: str
    """The log's own words."""
    number: int
    """Number of that line, from 1; 0: there is none."""
    phase: str
    figures: CardFigures
    trainer: str
    """The trainer whose log it seems to be; empty: any PyTorch training's."""
    likely: str
    """Words on what most likely takes the memory, or on what the error means; empty where that isn't known."""
    changes: tuple[str, ...]
    """Changes to make, best first."""
    may_fit: bool
    """A launch with autofit may find what fits."""
    unknown: tuple[str, ...]
    """Questions that the log leaves open."""


def explain(text: str) -> Explanation:
    """Explains a whole log."""
    lines = plain.plain(text)
    failure, dialect = trouble.find(lines), known.speaker("\n".join([text[: 1 << 16], *lines]))
    before = lines[: next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip() == failure.line), None)]
    told = table().kinds[failure.kind]
    where = trouble.part_of(failure.chain, before) if told.memory is not False else ""
    if failure.kind == "host" and "DefaultCPUAllocator" in failure.line and where not in ("", "setup", "data", "checkpoint"):
        told = table().kinds["processor"]
    place = text.rfind(failure.line) if failure.line else -1
    return Explanation(
        kind=failure.kind,
        memory=told.memory,
        headline=f"{told.words}{'; the training got over it and went on' if failure.went_on else ''}",
        line=failure.line,
        number=text.count("\n", 0, place) + 1 if place >= 0 else 0,
        phase=where,
        figures=failure.figures,
        trainer=dialect.words,
        likely=_likely(failure, told, where),
        changes=tuple(dict.fromkeys(filter(None, _changes(failure, told, where, dialect)))),
        may_fit=told.may_fit,
        unknown=tuple(_unknown(failure, told, where, before)),
    )


def _particular(failure: LogFailure) -> Known:
    """Finds what is known of this error, or of a frame of its traceback, beyond its kind."""
    entries = {"allocator": table().frames, "giant": table().frames, "other": table().errors, "foreign": table().errors}
    said = failure.line if failure.kind in ("other", "foreign") else failure.chain
    return known.match(entries.get(failure.kind, ()), said) or Known()


def _likely(failure: LogFailure, told: Known, where: str) -> str:
    figures, here = failure.figures, table().parts[where].likely
    if failure.kind == "allocator" and figures.contradict:
        return ""
    sizes = {"asked": figures.asked, "idle": figures.idle, "others": figures.others}
    likely = _particular(failure).likely or told.likely or (here if told.on_card else "")
    return likely.format(here=here, **{name: format_size(size or 0) for name, size in sizes.items()})


def _changes(failure: LogFailure, told: Known, where: str, dialect: Known) -> Iterator[str]:
    yield told.first
    for one in _particular(failure).changes or told.changes or (table().parts[where].changes if told.on_card else ()):
        yield dialect.terms.get(one, "")
    yield told.last


def _unknown(failure: LogFailure, told: Known, where: str, before: Sequence[str]) -> Iterator[str]:
    """Sentences on what the log leaves open."""
    figures = failure.figures
    if figures.asked and figures.total and figures.asked > figures.total:
        yield f"One tensor of {format_size(figures.asked)} is more than the whole card has: a shape, a length or a batch is far too large."
    elif failure.kind != "giant" and told.on_card and figures.contradict:
        yield (
            f"It says that {format_size(figures.free or 0)} were free, more than it asked for. Who else took the card just then, or which "
            "limit stood before it (Windows' page file, MIG, a quota), the log doesn't say."
        )
    if (told.on_card or failure.kind == "host") and not where:
        yield "In which part of the training it failed can't be told from the log."
    if told.memory and any(log_line.read(line, Progress()).loss_finite is False for line in before[-trouble.LAST_LINES :]):
        yield "Its losses were no finite numbers before that, and no memory cures it. Why (learning rate, fp16, data) the log doesn't say."
    if failure.kind == "maybe":
        yield "A trial with a smaller batch decides it: if that works, it was memory. nvidia-smi just before the failure shows it, too."
    if failure.kind == "other" and not _particular(failure).likely:
        yield "What the error means isn't known here; nothing in the log speaks of memory."
