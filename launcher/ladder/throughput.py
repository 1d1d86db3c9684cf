"""Chooses the fastest of the rungs that give up the same, and which of them is worth a trial. Pure.

A smaller micro-batch with more accumulation is the same training. On most cards it is slower; where a model's kernels fill the card
already, or memory near the limit makes the allocator work, it isn't (docs/decisions/018).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.config.schema import LadderRules
from launcher.ladder import search
from launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung

MOST_MORE = 2
"""Trials that are made for speed alone."""
WORTH = 1.05
"""A smaller micro-batch must be this many times as fast: two trials of one rung differ by some percent."""


def speed(rung: Rung, step_seconds: float) -> float | None:
    """Samples a second over all processes. ``step_seconds``: of one micro-batch; None where it wasn't timed."""
    return rung.micro_batch * rung.world_size / step_seconds if step_seconds > 0 else None


def alike(ladder: Ladder, fitting: Rung) -> list[Rung]:
    """The rungs that differ from ``fitting`` by a smaller micro-batch alone, with the same effective batch; largest first."""
    rest = {name: value for name, value in fitting.values.items() if name != MICRO_BATCH}
    found = [
        rung
        for rung in ladder.rungs
        if rung.micro_batch < fitting.micro_batch
        and rung.effective_batch == fitting.effective_batch
        and {name: value for name, value in rung.values.items() if name != MICRO_BATCH} == rest
    ]
    return sorted(found, key=lambda rung: -rung.micro_batch)


def worth_a_trial(ladder: Ladder, fitting: Rung, speeds: Mapping[int, float], *, made: int) -> Rung | None:
    """The rung to time next, after ``made`` trials for speed alone; None where nothing more is to be learned.

    ``speeds``: rung index -> samples a second, of the rungs that have been timed. First the one nearest to half the micro-batch of the
    fastest; where that is timed and was slower, the one between them.
    """
    rivals = [rung for rung in alike(ladder, fitting) if rung.index not in speeds]
    if made >= MOST_MORE or not rivals or fitting.index not in speeds:
        return None
    best = fastest(ladder, fitting, speeds)
    below = [rung.micro_batch for rung in alike(ladder, fitting) if rung.index in speeds and rung.micro_batch < best.micro_batch]
    wanted = best.micro_batch / 2 if not below else (best.micro_batch + max(below)) / 2
    inside = [rung for rung in rivals if max(below, default=0) < rung.micro_batch < best.micro_batch]
    return min(inside, key=lambda rung: abs(rung.micro_batch - wanted), default=None)


def most_more(ladder: Ladder) -> int:
    """Trials for speed alone that are made at most, whichever rung fits."""
    return min(MOST_MORE, max(len(alike(ladder, rung)) for rung in ladder.rungs))


def most_trials(ladder: Ladder, history: Sequence[search.Tried], rules: LadderRules) -> int:
    """Trials that are still to be made at most, those for speed among them where the recipe asks for it."""
    for_speed = most_more(ladder) if rules.objective == "throughput" else 0
    return search.most_left(ladder, history, policy=rules.search) + for_speed


def fastest(ladder: Ladder, fitting: Rung, speeds: Mapping[int, float]) -> Rung:
    """Of ``fitting`` and those like it the fastest that was timed; the larger micro-batch where they are as good as equal."""
    best = fitting
    for rung in alike(ladder, fitting):
        if rung.index in speeds and best.index in speeds and speeds[rung.index] >= WORTH * speeds[best.index]:
            best = rung
    return best
