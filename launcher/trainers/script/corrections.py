"""How a recipe is put right, after twins have shown that a rung trains otherwise than asked, or a trial that the command was misread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.adapter import wheel_names
from launcher.adapter.protocol import Correction
from launcher.config.schema import LadderRules, Recipe, WheelRule
from launcher.ladder.asked import Asked
from launcher.ladder.rungs import divisors_down
from launcher.ladder.twins import Finding, FindingKind
from launcher.shared.report import WORLD_SIZE
from launcher.trainers.script import batches, outside
from launcher.trainers.script.rules import ScriptArgs
from launcher.trainers.script.said import accumulation_form
from launcher.trainers.script.spelling import OUTSIDE


def of(recipe: Recipe, args: ScriptArgs, finding: Finding) -> Correction:
    """The recipe with what corrects a factor, or weights by targets."""
    changed = _cure(args, finding)
    return Correction(recipe=_with(recipe, **changed) if changed else None)


def counted(args: ScriptArgs) -> str:
    """Where its steps are held back from outside a script counts steps that it hasn't made."""
    return next(_in_steps(args), "") if accumulation_form(args) == OUTSIDE else ""


def _in_steps(args: ScriptArgs) -> Iterator[str]:
    return (spelled for spelled in args.lengths if wheel_names.counts_steps(batches.name(spelled)))


def _cure(args: ScriptArgs, finding: Finding) -> dict[str, Any]:
    """What to change of the arguments; nothing where no cure is known."""
    factor = finding.kind is FindingKind.FACTOR
    if args.update is not None or not (factor or finding.kind is FindingKind.WEIGHTED):
        return {}
    if accumulation_form(args) == OUTSIDE:  # what counts targets weighs them, and nothing else does
        loss = "mean" if factor and finding.power > 0 else "sum"
        return {"env": {**args.env, outside.LOSS: loss}, **({} if factor else {"update": "targets"})}
    if factor:
        return {"update": "average" if finding.power > 0 else "add"}
    return {"update": "targets" if finding.power > 0 else "targets_divided"}


def believing(recipe: Recipe, args: ScriptArgs, asked: Asked, ran: Mapping[str, int]) -> Recipe | None:
    """With what rung 0 ran. Not where a word of the command itself was disproved: it is no word for that, or counts in another unit. And
    not where the same place that hid the micro-batch may have hidden an accumulation that wasn't seen."""
    read = {WORLD_SIZE: asked.world_size, **{name: value for name, value in recipe.ask.items() if value}}
    other, form = {name: value for name, value in ran.items() if value != read.get(name, 1)}, accumulation_form(args)
    if not {"micro_batch", "accumulation"}.intersection(other) <= asked.unsaid:
        return None
    if "micro_batch" in other and "accumulation" not in ran and form not in ("", OUTSIDE):
        return None
    said = {name: value for name, value in other.items() if name != WORLD_SIZE}
    processes = {"processes": other[WORLD_SIZE]} if WORLD_SIZE in other else {}
    believed = _with(recipe, says={**args.says, **said}, **processes)
    return believed.model_copy(update={"ask": {**recipe.ask, **said}, "ladder": _turning_as_before(recipe, {**recipe.ask, **said}, form)})


def _turning_as_before(read: Recipe, ask: Mapping[str, Any], form: str) -> LadderRules:
    """The ladder's rules: a micro-batch that was kept as it was read is kept as it is believed. One whose script accumulates by itself and
    knows no word for it goes down by divisors, each of which takes a whole number of the script's own steps."""
    rule, micro_batch = read.ladder.wheels.get("micro_batch", WheelRule()), ask["micro_batch"]
    if rule.floor is not None and rule.floor == read.ask.get("micro_batch"):
        rule = rule.model_copy(update={"floor": micro_batch})
    elif form == OUTSIDE and ask.get("accumulation") not in (None, 1):
        rule = rule.model_copy(update={"values": divisors_down(micro_batch, of=micro_batch)[1:]})
    return read.ladder.model_copy(update={"wheels": {**read.ladder.wheels, "micro_batch": rule}})


def _with(recipe: Recipe, **changed: Any) -> Recipe:
    trainer = recipe.trainer.model_copy(update={"args": {**recipe.trainer.args, **changed}})
    return recipe.model_copy(update={"trainer": trainer})
