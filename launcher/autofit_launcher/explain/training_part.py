"""Tells by a traceback, and by what was printed before, in which part of a training it ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autofit_launcher.adapter import progress
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.explain.known import table
from autofit_launcher.full_run.cause import FRAME, phase_of
from autofit_launcher.shared.report import Phase

LAST_LINES = 200
"""Lines that are read of what was printed before a failure: the rest is long past."""


def find(chain: str, before: Sequence[str]) -> str:
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
    """Yields each frame of a traceback and its source line; of a traceback that was cut to its last source line, that line."""
    lines = chain.splitlines()
    cut = FRAME.search(chain) is None
    for number, line in enumerate(lines):
        if match := FRAME.search(line):
            yield f"{match[1]} in {match[2]}"
            if number + 1 < len(lines) and not FRAME.search(lines[number + 1]):
                yield f": {lines[number + 1].strip()}"
        elif cut and line[:1].isspace():
            yield f": {line.strip()}"


def _by_progress(before: Sequence[str]) -> str:
    part, known = "", Progress()
    for line in before[-LAST_LINES:]:
        if re.search(table().parts["validation"].signs, line):
            part = "training" if "100%" in line else "validation"
        elif (said := progress.read(line)) is not None:
            known = known.then(said)
            trains = known.step is not None or known.loss is not None
            part = "validation" if known.phase == progress.VALIDATE else "training" if trains else part
    return part
