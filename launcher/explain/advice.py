"""Names what most likely takes the memory, and what to change, best first. Pure; a trainer's own words come from its ``Dialect``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.adapter.dialect import Change, Dialect
from launcher.explain import known
from launcher.explain.part import Part
from launcher.explain.trouble import LogFailure, Trouble
from launcher.shared.sizes import format_size

_OF_A_STEP: tuple[Part, ...] = ("forward", "backward", "optimizer", "training", "validation")
_LIMIT = "take back the limit that the program set for itself (set_per_process_memory_fraction), if it may have more"


def on_card(failure: LogFailure) -> bool:
    return known.kinds()[failure.kind].on_card


def on_processor(failure: LogFailure, part: Part) -> bool:
    """PyTorch itself asked for host memory in a step: the training runs on the processor."""
    return failure.kind is Trouble.HOST and "DefaultCPUAllocator" in failure.line and part in _OF_A_STEP


def likely(failure: LogFailure, part: Part) -> str:
    """Names what most likely takes the memory, or what an error means; empty where that isn't known."""
    if failure.kind is Trouble.OTHER:
        return known.meaning(failure.line)
    if on_processor(failure, part):
        return f"the training runs on the processor: {known.parts()[part].likely}"
    if failure.kind is Trouble.ALLOCATOR:
        return "" if failure.figures.contradict else (known.frame(failure.chain) or known.parts()[part]).likely
    figures = failure.figures
    return known.kinds()[failure.kind].likely.format(idle=format_size(figures.idle or 0), others=format_size(figures.others or 0))


def changes(failure: LogFailure, part: Part, dialect: Dialect, cure: str) -> tuple[str, ...]:
    """Lists what to change, best first. ``cure``: what the trainer's adapter advises where page-locked memory failed."""
    return tuple(dict.fromkeys(filter(None, _changes(failure, part, dialect, cure))))


def _changes(failure: LogFailure, part: Part, dialect: Dialect, cure: str) -> Iterator[str]:
    told, figures = known.kinds()[failure.kind], failure.figures
    yield told.first
    if (
        failure.kind in (Trouble.ALLOCATOR, Trouble.FRAGMENTATION)
        and figures.allowed is not None
        and figures.allowed < (figures.total or 0)
    ):
        yield _LIMIT
    if failure.kind is Trouble.PINNED:
        yield cure
    for one in _wanted(failure, part):
        yield dialect.changes.get(one, "")
    yield told.last


def _wanted(failure: LogFailure, part: Part) -> Sequence[Change]:
    told, here = known.kinds()[failure.kind], known.parts()[part].changes
    frame = known.frame(failure.chain) if failure.kind is Trouble.ALLOCATOR else None
    if frame is not None and frame.changes:
        return frame.changes
    return here if told.on_card or on_processor(failure, part) else told.changes
