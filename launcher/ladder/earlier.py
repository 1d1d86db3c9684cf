"""Turns what trials of earlier launches measured into what they say of this ladder under this cap, and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.history.past_trials import PastTrial
from launcher.ladder.rungs import Ladder
from launcher.ladder.search import Tried, tells
from launcher.ladder.verdict import Kind, Verdict


def as_past(tried: Tried, *, training: str, device: str, cap_bytes: int, seconds: float = 0.0) -> PastTrial | None:
    """A trial in bytes; None if it says nothing of what its rung needs."""
    if not tells(tried):
        return None
    return PastTrial(
        training=training, device=device, rung=dict(tried.rung.values), fits=tried.verdict.fits, phase=tried.verdict.phase,
        need_bytes=(tried.need or 0.0) * cap_bytes, by_phase={phase: need * cap_bytes for phase, need in tried.by_phase.items()},
        seconds=round(seconds, 1),
    )  # fmt: skip


def on(ladder: Ladder, past: Iterable[PastTrial], *, cap_bytes: int) -> list[Tried]:
    """Past trials of this ladder's rungs as parts of this cap, of each rung the last. A failure under a lower cap shows nothing here."""
    newest = {_key(one.rung): one for one in past}
    found = []
    for rung in ladder.rungs:
        one = newest.get(_key(rung.values))
        if one is not None and (one.fits or one.need_bytes >= cap_bytes):
            verdict = Verdict(kind=Kind.FITS if one.fits else Kind.OUT_OF_MEMORY, phase=one.phase, why="")
            by_phase = {phase: need / cap_bytes for phase, need in one.by_phase.items()}
            found.append(Tried(rung=rung, verdict=verdict, need=one.need_bytes / cap_bytes, by_phase=by_phase))
    return found


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), sort_keys=True, default=str)
