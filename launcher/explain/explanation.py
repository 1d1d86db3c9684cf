"""Puts the explanation of a log together: what failed, where, for want of how much, what to change, and what autofit would do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.adapter.dialect import Dialect
from launcher.adapter.registry import adapters
from launcher.explain import advice, known, part, plain, trouble
from launcher.explain.figures import CardFigures
from launcher.explain.part import Part
from launcher.explain.trouble import LogFailure, Trouble
from launcher.ladder.rungs import divisors_down, sizes_down
from launcher.shared.sizes import format_size

_COMMAND = re.compile(
    r"^\s*(?:[\w.-]*[@:][^\s$#]*\s*[$#]|[$#%+>]|\(\S+\).*?[$#])?\s*"
    r"((?:\w+=\S+ )*(?:yolo|accelerate launch|torchrun|deepspeed|trl|python3?(?: -u)?)\s+\S.*)$"
)
"""A command as it was typed, behind a shell's prompt or without."""
_MOST_RUNGS = 6


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
    changes: tuple[str, ...]
    ladder: str
    command: str
    unknown: tuple[str, ...]
    """Questions that the log leaves open."""


def explain(text: str) -> Explanation:
    """Explains a whole log."""
    lines = plain.plain(text)
    failure = trouble.find(lines)
    dialect, cure = _speaker(text)
    number = next((at for at in range(len(lines), 0, -1) if failure.line and lines[at - 1].strip() == failure.line), 0)
    where = part.find(failure.chain if failure.chain != "\n".join(lines) else "\n".join(lines), lines[: number or None])
    if failure.kind.of_memory is False:
        where = ""
    return Explanation(
        kind=failure.kind,
        memory=failure.kind.of_memory,
        headline=_headline(failure),
        line=failure.line,
        number=number,
        phase=where,
        figures=failure.figures,
        trainer=dialect.trainer if dialect.signs else "",
        likely=advice.likely(failure, where),
        changes=advice.changes(failure, where, dialect, cure),
        ladder=_ladder(failure, where, dialect, text),
        command=_command(failure, lines),
        unknown=tuple(_unknown(failure, where)),
    )


def _headline(failure: LogFailure) -> str:
    went_on = "; the training got over it and went on" if failure.went_on and failure.kind is not Trouble.SPILLED else ""
    return f"{known.kinds()[failure.kind].headline}{went_on}"


def _speaker(text: str) -> tuple[Dialect, str]:
    """(whose log it is: the first whose signs it holds, a general trainer's last; its adapter's cure for want of page-locked memory)"""
    known = [(dialect, adapter) for adapter in sorted(adapters(), key=lambda one: one.general) for dialect in adapter.dialects]
    speaking = (pair for pair in known if pair[0].signs and pair[0].speaks(text))
    dialect, adapter = next(speaking, None) or next(pair for pair in known if not pair[0].signs)
    return dialect, "" if adapter.general else adapter.words.cures.get("pinned", "")


def _ladder(failure: LogFailure, where: Part, dialect: Dialect, text: str) -> str:
    """The rungs that autofit would try, in words; empty where a lower rung is not what helps."""
    if not (advice.on_card(failure) or failure.kind is Trouble.MAYBE) and not advice.on_processor(failure, where):
        return ""
    batch, steps = dialect.setting("micro_batch", text), dialect.setting("accumulation", text) or 1
    then = ["smaller inputs", "gradient checkpointing", "a smaller model"]
    if size := dialect.setting("size", text):
        then[0] = f"inputs of {', '.join(map(str, sizes_down(size, floor=min(320, size), grid=32, ratio=0.8)[1:4])) or 'that size'}"
    rest = f"then {', then '.join(then)}"
    if not batch or batch > 4096:
        return f"the same effective batch in smaller micro-batches (half, with twice the accumulation; a quarter, ...), {rest}"
    sizes = divisors_down(batch, of=batch * steps)
    rungs = [f"{one} x {batch * steps // one}" for one in sizes]
    shown = rungs if len(rungs) <= _MOST_RUNGS else [*rungs[: _MOST_RUNGS - 1], "...", rungs[-1]]
    return f"micro-batch x accumulation {', '.join(shown)}; {rest}"


def _command(failure: LogFailure, lines: Sequence[str]) -> str:
    if failure.kind in (Trouble.OTHER, Trouble.NOTHING, Trouble.SHM, Trouble.WORKERS, Trouble.PINNED):
        return ""
    typed = next((match[1] for line in lines if (match := _COMMAND.match(line)) and re.search(r"train|\.py\b|sft|tune|fit", match[1])), "")
    return f"autofit run -- {typed.strip() or 'YOUR COMMAND'}"


def _unknown(failure: LogFailure, where: Part) -> list[str]:
    """Sentences on what the log leaves open."""
    figures, said = failure.figures, []
    on_card = failure.kind in (Trouble.ALLOCATOR, Trouble.FRAGMENTATION, Trouble.NEIGHBOURS)
    if figures.asked and figures.total and figures.asked > figures.total:
        said.append(
            f"One tensor of {format_size(figures.asked)} is more than the whole card has: a shape, a length or a batch is far too large."
        )
    elif on_card and figures.contradict and figures.free:
        said.append(
            f"It says that {format_size(figures.free)} were free, more than it asked for. Who else took the card just then, or which limit "
            "stood before it (Windows' page file, MIG, a quota), the log doesn't say."
        )
    elif on_card and figures.asked is None:
        said.append("How much was asked for, held and free stands not in the log.")
    if (advice.on_card(failure) or failure.kind is Trouble.HOST) and not where:
        said.append("In which part of the training it failed can't be told from the log.")
    if failure.kind is Trouble.MAYBE:
        said.append(
            "A trial with a smaller batch decides it: if that works, it was memory. nvidia-smi just before the failure shows it, too."
        )
    if failure.kind is Trouble.OTHER and not known.meaning(failure.line):
        said.append("What the error means isn't known here; nothing in the log speaks of memory.")
    return said
