"""Names the other trainings that might fit if no rung does, with the words to type. Runs nothing for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from autofit_launcher.adapter import build
from autofit_launcher.engine.state import Fit
from autofit_launcher.errors import BadInput
from autofit_launcher.ladder.rungs import AS_ASKED, MICRO_BATCH, Rung
from autofit_launcher.ladder.search import estimates
from autofit_launcher.trial import past
from autofit_launcher.trial.job import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Could:
    """Another training that a person could accept."""

    flag: str
    """The option of a command's launch that accepts it."""
    key: str
    """The key of a recipe that accepts it."""
    rung: Rung | None
    """The first rung that is estimated to fit then, by the trials that were made; None where none is."""

    def as_record(self) -> dict[str, Any]:
        return {"flag": self.flag, "key": self.key, "rung": dict(self.rung.values) if self.rung is not None else None}


def could_fit(result: Fit) -> Iterator[Could]:
    """Yields what a person could accept: wheels that are asked and nobody lets turn; the difference that a proof has found; a smaller
    effective batch, if only that keeps the micro-batch up."""
    job, rules = result.job, result.job.recipe.ladder
    accumulates = not result.refused and all(trial.verdict.source != "accumulation" for trial in result.trials)
    others = [name for name in job.recipe.ask if name not in (*rules.order, *AS_ASKED)]
    for name in others:
        order = (*rules.order, name)
        freed = _freed(job, order=order)
        if freed is not None and any(name in freed.ladder.given_up(rung) for rung in freed.ladder.rungs):
            rung = _estimated(freed, accumulates=accumulates)
            yield Could(flag=f"--give-up {name}", key=f"ladder.order=[{','.join(order)}]", rung=rung)
    if result.refused and rules.keep_update:
        yield Could(flag="--allow-difference", key="ladder.keep_update=false", rung=_estimated(job, accumulates=True))
    fixed = result.misread is None and len({rung.micro_batch for rung in job.ladder.rungs}) == 1 and type(job.adapter).general
    if rules.keep_batch and job.ladder.asked.micro_batch > 1 and (fixed or not accumulates):
        order = (MICRO_BATCH, *(name for name in rules.order if name != MICRO_BATCH))
        wheels = {name: rule for name, rule in rules.wheels.items() if name != MICRO_BATCH}
        freed = _freed(job, keep_batch=False, order=order, wheels=wheels)
        rung = _estimated(freed, accumulates=True) if freed is not None else None
        yield Could(flag="--allow-batch", key="ladder.keep_batch=false", rung=rung)


def _freed(job: Job, **rules: Any) -> Job | None:
    """The launch with other rules of its ladder; None where they can't be."""
    adapter = type(job.adapter)(job.recipe.model_copy(update={"ladder": job.recipe.ladder.model_copy(update=rules)}))
    try:
        return None if adapter.check() else replace(job, adapter=adapter, ladder=build.ladder_of(adapter))
    except BadInput:
        return None


def _estimated(job: Job, *, accumulates: bool) -> Rung | None:
    """Returns the first rung that is estimated to fit. ``accumulates``: more accumulation than asked is no other training."""
    need, ladder = estimates(job.ladder.rungs, past.of(job)), job.ladder
    may = (rung for rung in ladder.rungs if accumulates or rung.accumulation <= ladder.asked.accumulation)
    return next((rung for rung in may if need.get(rung.index, 2.0) <= 1.0), None)
