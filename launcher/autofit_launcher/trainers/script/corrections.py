"""Puts a recipe right, after twins have shown that a rung trains otherwise than asked."""

from __future__ import annotations

from typing import Any

from autofit_launcher.adapter import wheel_names
from autofit_launcher.adapter.protocol import Correction
from autofit_launcher.config.schema import Recipe
from autofit_launcher.ladder.twins import Finding, FindingKind
from autofit_launcher.trainers.script import outside
from autofit_launcher.trainers.script.rules import ScriptArgs
from autofit_launcher.trainers.script.said import accumulation_form
from autofit_launcher.trainers.script.spelling import OUTSIDE, name


def counted(args: ScriptArgs) -> str:
    """Names the length in steps of a script whose steps are held back from outside: it counts some that it hasn't made. Else empty."""
    counts = (spelled for spelled in args.lengths if wheel_names.counts_steps(name(spelled)))
    return next(counts, "") if accumulation_form(args) == OUTSIDE else ""


def of(args: ScriptArgs, finding: Finding) -> Correction:
    """Returns what to change of the arguments for a factor, or weights by targets; nothing where no cure is known."""
    factor = finding.kind is FindingKind.FACTOR
    if args.update is not None or not (factor or finding.kind is FindingKind.WEIGHTED):
        return Correction()
    if accumulation_form(args) == OUTSIDE:  # what counts targets weighs them, and nothing else does
        loss = "mean" if factor and finding.power > 0 else "sum"
        return Correction(cure={"env": {**args.env, outside.LOSS: loss}, **({} if factor else {"update": "targets"})})
    if factor:
        return Correction(cure={"update": "average" if finding.power > 0 else "add"})
    return Correction(cure={"update": "targets" if finding.power > 0 else "targets_divided"})


def way(update: str, times: float) -> str:
    """Says how ``native/update`` makes ``times`` as many micro-batches' update the asked one. ``update``: ``trainer.args.update``."""
    return {
        "average": f"times:{1 / times!r}", "add": f"times:{times!r}", "targets": f"targets:1:{round(times)}",
        "targets_divided": f"targets:{times!r}:{round(times)}",
    }[update]  # fmt: skip


def with_args(recipe: Recipe, **changed: Any) -> Recipe:
    trainer = recipe.trainer.model_copy(update={"args": {**recipe.trainer.args, **changed}})
    return recipe.model_copy(update={"trainer": trainer})
