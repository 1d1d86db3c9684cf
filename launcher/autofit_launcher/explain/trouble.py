"""Finds which kind of failure a log tells of. Pure. What a line means is known by ``shared.memory_failures`` and ``full_run.cause``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from autofit_launcher.adapter import log_line
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.explain import known
from autofit_launcher.explain.card_figures import CardFigures, read
from autofit_launcher.explain.known import table
from autofit_launcher.explain.plain import SOURCE
from autofit_launcher.explain.training_part import LAST_LINES
from autofit_launcher.full_run.cause import from_error, last_chain
from autofit_launcher.shared import files
from autofit_launcher.shared.memory_failures import MemoryFailure, maybe_memory, memory_failure, memory_failures, spoken
from autofit_launcher.shared.sizes import GIB, MIB


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
    went_on: bool = False
    """The program got over it."""


def find(lines: list[str]) -> LogFailure:
    """Finds the failure that the log ends with. ``lines``: plain ones."""
    text, kinds = "\n".join(lines), table().kinds
    chain = last_chain(text)
    words = _spoken(chain.splitlines())
    failure = _failure(words)
    if failure is None and chain != text and not _last(kinds["other"].signs, words):  # its last traceback was cut
        chain, words = text, _spoken(lines)
        failure = _failure(words)
    if failure is None:
        words = _unwrapped(words)
        failure = _failure(words)
    of_host = failure is None or failure.source in ("host", "workers")
    if of_host and (killer := _last(kinds["killer"].signs, lines)):
        return LogFailure(kind="killer", line=killer, chain=chain)
    if of_host and (foreign := _last("|".join(one.signs for one in table().errors if one.on_card), words)):
        return LogFailure(kind="foreign", line=foreign, chain=chain)
    if failure is not None:
        return _of_memory(failure, words, chain, went_on=_went_on(text, failure.line))
    for kind in ("killed", "workers"):
        if line := _last(kinds[kind].signs, lines):
            return LogFailure(kind=kind, line=line, chain=chain)
    return _of_another_kind(chain, words)


def _spoken(lines: list[str]) -> list[str]:
    """The program's own words: without the frames of tracebacks, the source around them, and advice."""
    advice = table().kinds["nothing"].signs
    kept = (line for line in spoken(lines) if not SOURCE.match(line))
    return [line for line in kept if not re.search(advice, line) or "Tried to allocate" in line]


def _pairs(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines that a terminal or a mail may have made of one, the last first."""
    for at in range(len(lines) - 2, max(-1, len(lines) - LAST_LINES), -1):
        for between in (" ", ""):
            if len(joined := f"{lines[at].strip()}{between}{lines[at + 1].strip()}") < 400:
                yield at, joined


def _unwrapped(spoken: list[str]) -> list[str]:
    """Joins the last two lines that speak of a failure only together."""
    found = ([*spoken[:at], joined, *spoken[at + 2 :]] for at, joined in _pairs(spoken) if _failure([joined]) is not None)
    return next(found, spoken)


def _failure(spoken: Sequence[str]) -> MemoryFailure | None:
    """The last one; of the allocator's rather one that tells a size than what somebody said of it."""
    last = memory_failure("\n".join(spoken), last=True)
    if last is None:
        cut = next((line.strip() for line in reversed(spoken) if re.search(table().kinds["allocator"].signs, line)), "")
        return MemoryFailure(source="allocator", line=cut, asked_bytes=None) if cut else None
    after = "\n".join(spoken).rpartition(last.line)[2]
    if last.source != "allocator" or last.asked_bytes or re.search(table().kinds["allocator"].signs, after):
        return last
    return next((one for one in reversed(memory_failures(spoken)) if one.source == "allocator" and one.asked_bytes), last)


def _of_memory(failure: MemoryFailure, spoken: Sequence[str], chain: str, *, went_on: bool) -> LogFailure:
    at = next(number for number, line in enumerate(spoken) if line.strip().startswith(failure.line[:400]))
    below = takewhile(lambda line: not re.search(r"Traceback|Error: |(CUDA|HIP) out of memory", line), spoken[at + 1 : at + 25])
    figures = read(" ".join([spoken[at], *below]))
    kind = _kind(failure, figures, chain, around=" ".join(spoken[max(0, at - 3) : at + 6]))
    return LogFailure(kind=kind, line=spoken[at].strip(), chain=chain, figures=figures, went_on=went_on)


def _kind(failure: MemoryFailure, figures: CardFigures, chain: str, *, around: str) -> str:
    told = {"workers": (("shm", chain), ("killed", failure.line)), "driver": (("nccl", around), ("library", failure.line))}
    if failure.source == "allocator":
        return _of_allocator(figures)
    return next((kind for kind, text in told.get(failure.source, ()) if re.search(table().kinds[kind].signs, text)), failure.source)


def _of_allocator(figures: CardFigures) -> str:
    held, total = figures.reserved, figures.total
    if held is not None and total is not None and held > total:
        return "spilled"
    asked, idle = figures.asked, figures.idle
    # A rest is also what isn't told of this process; outside PyTorch's allocator it mostly holds less than that (context, libraries).
    least = max(GIB, (total or 0) // (2 if figures.ours is None else 4))
    if figures.others is not None and total and figures.others >= least and (figures.free or 0) < (asked or GIB):
        return "neighbours"
    if asked is not None and asked >= max(8 * GIB, (total or 32 * GIB) // 2):  # no sum of many, and little that a smaller batch cures
        return "giant"
    if asked is not None and idle is not None and held and idle >= max(asked, held // 10, 32 * MIB):
        return "fragmentation"
    return "allocator"


def _went_on(text: str, line: str) -> bool:
    """Tells whether the log speaks of training after the line, without an error."""
    _, found, after = text.rpartition(line[:400])
    told = sum(log_line.read(one, Progress()).progress != Progress() for one in after.splitlines()[1:LAST_LINES])
    return bool(found) and "Traceback" not in text and told > 1


def _of_another_kind(chain: str, spoken: Sequence[str]) -> LogFailure:
    if unwritten := _last(files.WHY.pattern, spoken):
        return LogFailure(kind="other", line=unwritten, chain=chain)
    if doubtful := maybe_memory("\n".join(spoken)):
        return LogFailure(kind="maybe", line=doubtful, chain=chain)
    kinds = table().kinds
    error = from_error(chain)[0].strip() if 'File "' in chain else ""
    if not re.search(kinds["other"].signs, error):
        found = (line for line in reversed(spoken) if re.search(kinds["other"].signs, line) or known.match(table().errors, line))
        error = next(found, error).strip()
    rows = list(re.finditer(kinds["spilled"].signs, "\n".join(spoken), re.MULTILINE))
    if not error and rows and (card := re.search(r"CUDA:\d+ \([^()]*, (\d+)MiB\)", "\n".join(spoken))):
        figures = CardFigures(total=int(card[1]) * MIB, reserved=int(float(rows[-1]["held"]) * 10**9))
        if _of_allocator(figures) == "spilled":
            return LogFailure(kind="spilled", line=rows[-1][0].strip(), chain=chain, figures=figures)
    return LogFailure(kind="other" if error else "nothing", line=error, chain=chain)


def _last(pattern: str, lines: Sequence[str]) -> str:
    """The last line that holds it, or two that were one."""
    said = (*reversed(lines), *(joined for _, joined in _pairs(lines)))
    return next((line.strip() for line in said if re.search(pattern, line.strip())), "")
