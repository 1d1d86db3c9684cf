"""Makes the recipe that asks for what a trial showed of a person's command: rung 0 is the command as it stands, and is believed.

Where the batch arrives a lower rung sets it: at a known trainer's call, else at the line of the data loader. What can't be set anywhere
stays as it ran. Puts a recipe right, too, after twins have shown that a rung trains otherwise than asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from autofit_launcher.adapter import wheel_names
from autofit_launcher.adapter.protocol import Asked, Correction
from autofit_launcher.common.report import STEP, WORLD_SIZE
from autofit_launcher.config.schema import LadderRules, Recipe
from autofit_launcher.ladder.rungs import ACCUMULATION, CHECKPOINTING, MICRO_BATCH, Value
from autofit_launcher.ladder.same_training import Length
from autofit_launcher.ladder.twins import Finding, FindingKind
from autofit_launcher.trainers.script import outside
from autofit_launcher.trainers.script.recognise import ORDER
from autofit_launcher.trainers.script.rules import ScriptArgs, asked_accumulation
from autofit_launcher.trainers.script.spelling import CALL, ITSELF, LOADER, OUTSIDE, kind, name

FIELDS: Mapping[str, str] = {
    MICRO_BATCH: f"{CALL}per_device_train_batch_size",
    ACCUMULATION: f"{CALL}gradient_accumulation_steps",
    "val_micro_batch": f"{CALL}per_device_eval_batch_size",
    CHECKPOINTING: f"{CALL}gradient_checkpointing",
}
"""Wheel -> its field with which transformers' Trainer is called (``native.fields``)."""
_LIGHTNING = f"{CALL}accumulate_grad_batches"
_LENGTHS = (f"{CALL}max_steps", f"{CALL}num_train_epochs")


class OfTrials(NamedTuple):
    """The findings of trials, as ``Adapter.believing`` gets them."""

    ran: Mapping[str, int]
    arrived: Mapping[str, Any]


def believing(recipe: Recipe, args: ScriptArgs, asked: Asked, shown: OfTrials) -> Recipe | None:
    """The recipe with what ran in place of what was read, set where it arrives; None where that is the same recipe, or it isn't known how
    what ran is turned."""
    ways, says = dict(args.spelled), dict(args.says)
    turns = {MICRO_BATCH: _micro_batch, ACCUMULATION: _accumulation}
    if not all(turn(ways, says, recipe, asked, shown) for wheel, turn in turns.items() if wheel not in asked.told):
        return None
    if MICRO_BATCH in asked.told and shown.ran.get(MICRO_BATCH, recipe.ask[MICRO_BATCH]) != recipe.ask[MICRO_BATCH]:
        return None
    for wheel, way in FIELDS.items():
        if wheel in _ALSO and not asked.told and wheel not in ways and way in shown.arrived:
            ways[wheel], says[wheel] = way, shown.arrived[way]
    processes = shown.ran.get(WORLD_SIZE, asked.world_size)
    more: dict[str, Any] = {"processes": processes} if processes != asked.world_size else {}
    more |= {"lengths": found} if not args.lengths and (found := _lengths(shown.arrived)) else {}
    ask = {**recipe.ask, **{wheel: value for wheel, value in says.items() if wheel not in asked.told}}
    if (ways, says, ask, more) == (args.spelled, args.says, recipe.ask, {}):
        return None
    ladder = _ladder(recipe, ask, ways)
    trainer = recipe.trainer.model_copy(update={"args": {**recipe.trainer.args, "spelled": ways, "says": says, **more}})
    return recipe.model_copy(update={"trainer": trainer, "ask": ask, "ladder": ladder})


_ALSO = ("val_micro_batch", CHECKPOINTING)
"""Wheels that are turned, too, where a trainer is called with them."""


def told(recipe: Recipe, args: ScriptArgs) -> frozenset[str]:
    """Settings that rung 0 says to the script (``Asked.told``)."""
    asked = {**recipe.ask, ACCUMULATION: asked_accumulation(recipe)}
    said = {wheel: (spelling, asked.get(wheel)) for wheel, spelling in args.spelled.items()}
    return frozenset(
        wheel for wheel, (spelling, value) in said.items()
        if spelling != ITSELF and (spelling, value) != (OUTSIDE, 1) and value not in (None, args.says.get(wheel))
    )  # fmt: skip


def _micro_batch(ways: dict[str, str], says: dict[str, Any], recipe: Recipe, asked: Asked, shown: OfTrials) -> bool:
    """Says the micro-batch as it ran. A typed word that isn't what ran is no word for it, or counts in another unit. False where nothing
    sets what ran."""
    ran = shown.ran.get(MICRO_BATCH)
    if ran is not None:
        if MICRO_BATCH in ways and MICRO_BATCH not in asked.unsaid and ran != recipe.ask.get(MICRO_BATCH):
            del ways[MICRO_BATCH]
        if MICRO_BATCH not in ways and (way := _way(shown.arrived, ran)):
            ways[MICRO_BATCH] = way
        says[MICRO_BATCH] = ran
    return MICRO_BATCH in ways


def _way(arrived: Mapping[str, Any], ran: int) -> str:
    """Names the place where the micro-batch that ran arrives; empty where that isn't one place."""
    if arrived.get(FIELDS[MICRO_BATCH]) == ran:
        return FIELDS[MICRO_BATCH]
    loaders = [place for place, batch in arrived.items() if place.startswith(LOADER) and batch == ran]
    return loaders[0] if len(loaders) == 1 else ""


def _accumulation(ways: dict[str, str], says: dict[str, Any], recipe: Recipe, asked: Asked, shown: OfTrials) -> bool:
    """Says the accumulation at the call at which the micro-batch arrives, or by the command's own word; else it is done from outside. False
    where the command's word isn't what ran, or may not be, and where the script accumulates by itself without a word for it."""
    ran, form = shown.ran.get(ACCUMULATION), kind(ways[ACCUMULATION])[0] if ACCUMULATION in ways else ""
    of_call = ways[MICRO_BATCH].startswith(CALL)
    calls = (FIELDS[ACCUMULATION], *(() if of_call else (_LIGHTNING,)))
    call = next((one for one in calls if one in shown.arrived), "")
    if call and (of_call or form in ("", "call", OUTSIDE)):
        ways[ACCUMULATION], says[ACCUMULATION] = call, shown.arrived[call]
    elif form == ITSELF:
        _by_itself(says, recipe, asked, shown)
    elif form and _is_otherwise(form, recipe, asked, shown):
        return False
    elif form in ("", OUTSIDE):
        if form or ways[MICRO_BATCH] != recipe.trainer.args.get("spelled", {}).get(MICRO_BATCH):
            ways[ACCUMULATION], says[ACCUMULATION] = OUTSIDE, 1
        return ran in (None, 1)  # on top of what a script takes by itself nothing is done from outside
    elif ran is not None:
        says[ACCUMULATION] = ran
    return True


def _is_otherwise(form: str, recipe: Recipe, asked: Asked, shown: OfTrials) -> bool:
    """Tells whether the typed word for accumulation isn't what ran, or, if the micro-batch was hidden, what ran may be hidden, too."""
    ran, read = shown.ran.get(ACCUMULATION), recipe.ask.get(MICRO_BATCH)
    if ran is None:
        return form != OUTSIDE and ACCUMULATION in asked.unsaid and shown.ran.get(MICRO_BATCH, read) != read
    return ACCUMULATION not in asked.unsaid and ran != (recipe.ask.get(ACCUMULATION) or 1)


def _by_itself(says: dict[str, Any], recipe: Recipe, asked: Asked, shown: OfTrials) -> None:
    """Says the accumulation that ran. If rung 0 ended before its first step, a lower rung has told a step's samples; if they are no whole
    micro-batches of the asked ones, its trial shows that the script doesn't keep its step (in a warm-up, say): it is another training."""
    if (ran := shown.ran.get(ACCUMULATION)) is not None:
        says[ACCUMULATION] = ran
    elif (step := shown.ran.get(STEP)) is not None and asked.unseen_step:
        batch: Any = shown.ran.get(MICRO_BATCH) or recipe.ask[MICRO_BATCH]
        says[ACCUMULATION] = max(step // (int(batch) * asked.world_size), 1)


def _ladder(recipe: Recipe, ask: Mapping[str, Value], ways: Mapping[str, str]) -> LadderRules:
    """The ladder's rules, with the wheels that were found."""
    order, known = recipe.ladder.order, recipe.trainer.args.get("spelled", {})
    new = {wheel for wheel in (MICRO_BATCH, *_ALSO) if wheel in ways and wheel not in known and ask.get(wheel) is not True}
    if new:
        order = (*(wheel for wheel in ORDER if wheel in {*new, *order}), *(wheel for wheel in order if wheel not in ORDER))
    return recipe.ladder.model_copy(update={"order": order})


def _lengths(arrived: Mapping[str, Any]) -> dict[str, int]:
    """Spelling -> optimizer steps, or else passes over the data, that transformers' Trainer was called with, as a whole number of them."""
    for field in _LENGTHS:  # the first counts where it is positive
        if (value := arrived.get(field, 0)) > 0:
            return {field: int(value)} if value == int(value) else {}
    return {}


def length_of(lengths: Mapping[str, int], *, one_kind: bool) -> Length | None:
    """Returns the length if one word alone says it. ``one_kind``: as the command stands a step is an optimizer step."""
    if len(lengths) != 1:
        return None
    ((spelled, asked),) = lengths.items()
    if wheel_names.counts_passes(name(spelled)):
        return Length(word=spelled, passes=asked)
    of_a_pass = "epoch" in name(spelled).lower()  # --steps-per-epoch
    return Length(word=spelled, updates=asked) if one_kind and not of_a_pass else None


# ---- what twins have shown


def counted(args: ScriptArgs) -> str:
    """Names the length in steps of a script whose steps are held back from outside: it counts some that it hasn't made. Else empty."""
    counts = (spelled for spelled in args.lengths if wheel_names.counts_steps(name(spelled)))
    return next(counts, "") if args.accumulation_form == OUTSIDE else ""


def corrected(args: ScriptArgs, finding: Finding) -> Correction:
    """Returns what to change of the arguments for a factor, or weights by targets; nothing where no cure is known."""
    factor = finding.kind is FindingKind.FACTOR
    if args.update is not None or not (factor or finding.kind is FindingKind.WEIGHTED):
        return Correction()
    if args.accumulation_form == OUTSIDE:  # what counts targets weighs them, and nothing else does
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
