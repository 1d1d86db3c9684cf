"""Puts the explanation of a log together: what failed, where, for want of how much, and what to change in its trainer's own words."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Sentences on what the log leaves open."""


def explain(text: str) -> Explanation:
    """Explains a whole log."""
    lines, parts = plain.plain(text), table().parts
    failure, terms = trouble.find(lines), known.speaker("\n".join([text[: 1 << 16], *lines]))
    before = lines[: next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip() == failure.line), None)]
    told = table().kinds[failure.kind]
    where = trouble.part_of(failure.chain, before) if told.memory is not False else ""
    if failure.kind == "host" and "DefaultCPUAllocator" in failure.line and where not in ("", "setup", "data", "checkpoint"):
        told = table().kinds["processor"]
    place, here, particular = text.rfind(failure.line) if failure.line else -1, parts[where], _particular(failure)
    sizes = {name: format_size(getattr(failure.figures, name) or 0) for name in ("asked", "idle", "others")}
    likely = particular.likely or told.likely or (here.likely if told.on_card else "")
    changes = particular.changes or told.changes or (here.changes if told.on_card else ())
    unknown = ("" if particular.likely else told.unknown, here.unknown if told.on_card or failure.kind == "host" else "")
    return Explanation(
        kind=failure.kind,
        memory=told.memory,
        headline=told.words,
        line=failure.line,
        number=text.count("\n", 0, place) + 1 if place >= 0 else 0,
        phase=where,
        figures=failure.figures,
        trainer=terms.words,
        likely=likely.format(here=here.likely, **sizes),
        changes=tuple(dict.fromkeys(filter(None, (told.first, *(terms.terms.get(one, "") for one in changes), told.last)))),
        may_fit=told.may_fit,
        unknown=tuple(filter(None, unknown)),
    )


def _particular(failure: LogFailure) -> Known:
    """Finds what is known of this error, or of a frame of its traceback, beyond its kind."""
    entries = {"allocator": table().frames, "giant": table().frames, "other": table().errors, "foreign": table().errors}
    said = failure.line if failure.kind in ("other", "foreign") else failure.chain
    return known.match(entries.get(failure.kind, ()), said) or Known()
