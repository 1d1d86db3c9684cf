"""Chooses the fastest of the rungs that give up the same, and which of them is worth a trial. Pure.

A smaller micro-batch with more accumulation is the same training, and usually slower. It can be faster if a model's kernels fill the card
anyway, or if the allocator works near its limit. Speeds: rung index -> samples a second over all processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.config.schema import LadderRules
from launcher.ladder import search
from launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung

MOST_MORE = 2
"""The most trials that are made only for speed."""
WORTH = 1.05
"""A smaller micro-batch must be this many times as fast, since two trials of one rung differ by some percent."""


def speed(rung: Rung, step_seconds: float) -> float | None:
    """Samples a second. ``step_seconds``: seconds of one micro-batch. None if it wasn't timed (0)."""
    return rung.micro_batch * rung.world_size / step_seconds if step_seconds > 0 else None


def alike(ladder: Ladder, fitting: Rung) -> Sequence[Rung]:
    """Rungs that differ from ``fitting`` only by a smaller micro-batch, with the same effective batch; largest first."""
    found = [rung for rung in ladder.rungs if {**rung.values, MICRO_BATCH: 0} == {**fitting.values, MICRO_BATCH: 0}]
    found = [rung for rung in found if rung.micro_batch < fitting.micro_batch and rung.effective_batch == fitting.effective_batch]
    return sorted(found, key=lambda rung: -rung.micro_batch)


def worth_a_trial(ladder: Ladder, fitting: Rung, speeds: Mapping[int, float], *, made: int) -> Rung | None:
    """The rung to time next, after ``made`` trials only for speed; None if no more are worth it.

    That is the one nearest to half the micro-batch of the fastest; if that was slower, the one between them.
    """
    if made >= MOST_MORE or fitting.index not in speeds:
        return None
    best, rivals = fastest(ladder, fitting, speeds).micro_batch, alike(ladder, fitting)
    slower = max((rung.micro_batch for rung in rivals if rung.index in speeds and rung.micro_batch < best), default=0)
    inside = [rung for rung in rivals if rung.index not in speeds and slower < rung.micro_batch < best]
    return min(inside, key=lambda rung: abs(rung.micro_batch - (best + slower) / 2), default=None)


def most_more(ladder: Ladder) -> int:
    """The most trials only for speed, whichever rung fits."""
    return min(MOST_MORE, max(len(alike(ladder, rung)) for rung in ladder.rungs))


def most_trials(ladder: Ladder, history: Sequence[search.Tried], rules: LadderRules) -> int:
    """The most trials still to be made, including those for speed if the recipe wants them."""
    return search.most_left(ladder, history, policy=rules.search) + (most_more(ladder) if rules.objective == "throughput" else 0)


def fastest(ladder: Ladder, fitting: Rung, speeds: Mapping[int, float]) -> Rung:
    """The fastest timed rung among ``fitting`` and those like it; of nearly equal ones the larger micro-batch."""
    best = fitting
    for rung in alike(ladder, fitting):
        if rung.index in speeds and best.index in speeds and speeds[rung.index] >= WORTH * speeds[best.index]:
            best = rung
    return best
