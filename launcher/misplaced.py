"""Overrides whose key no recipe has -> faults that say what was probably meant: ``batch=16`` is ``ask.micro_batch=16``.

Which trainer's words they are is asked of the adapter of the recipe that the other words compose to.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from launcher.errors import COMMAND_LINE, BadInput, Fault
from launcher.overrides import Override, read
from launcher.schema import DeviceRules, LadderRules, Part, Recipe, RecoverRules, RunRules, TrainerRules, TrialRules
from launcher.trainers.base import Adapter, load_adapter
from launcher.trainers.script.names import meaning

KEYS = (*Recipe.model_fields, "recipe", "hydra")
_SECTIONS: dict[str, type[Part]] = {
    "device": DeviceRules,
    "trial": TrialRules,
    "recover": RecoverRules,
    "run": RunRules,
    "ladder": LadderRules,
    "trainer": TrainerRules,
}


def of(words: Iterable[str]) -> list[str]:
    """Those of the overrides that say no key of a recipe, or no value."""
    return [word for word in words if not _has_a_place(word)]


def _has_a_place(word: str) -> bool:
    override = read(word)
    key = override.key if override is not None else word.removeprefix("~")
    return (override is not None or word.startswith("~")) and re.split(r"[./@]", key)[0] in KEYS


def faults(words: Sequence[str], *, recipe: Recipe | None, recipes: Iterable[str] = ()) -> list[Fault]:
    """A fault for each such word. ``recipe``: what the other words compose to; ``recipes``: names of those that are there."""
    return [_fault(word, recipe, recipes) for word in words]


def _fault(word: str, recipe: Recipe | None, recipes: Iterable[str]) -> Fault:
    override = read(word)
    if override is None:
        cure = f"Did you mean recipe={word}?" if word in recipes else "Overrides are KEY=VALUE, as in ask.micro_batch=16."
        return Fault(key="", where=COMMAND_LINE, found=f"{word!r} is no KEY=VALUE", cure=cure)
    adapter = _adapter(recipe)
    is_own, refusal = False, None
    if adapter is not None and recipe is not None and override.key.isidentifier():
        refusal = _refusal(override, recipe, adapter)
        is_own = refusal is None
    meant = _meant(override.key, adapter, is_own=is_own)
    found = "autofit has no key of that name"
    if meant is not None:
        cure = f"Did you mean {meant}={override.value}?"
    elif refusal is not None:
        found, cure = f"{found}, and {refusal.key} is refused: {refusal.found}", refusal.cure
    else:
        cure = f"Keys are {', '.join(KEYS[:-1])}; the trainer's own arguments are trainer.args.NAME."
    return Fault(key=override.key, where=COMMAND_LINE, found=found, cure=cure)


def _meant(key: str, adapter: type[Adapter] | None, *, is_own: bool) -> str | None:
    """The key that has a place. A wheel comes first, then the trainer's own argument, then what is spelled nearly so."""
    first, dot, rest = key.partition(".")
    wheels = {*adapter.wheels, "accumulation"} if adapter is not None else None
    for wheel in (key, meaning(key) if not dot else None):
        if wheel is not None and (wheel in wheels if wheels is not None else wheel == meaning(key)):
            return f"ask.{wheel}"
    if is_own:
        return f"trainer.args.{key}"
    for section, rules in _SECTIONS.items():
        if first in rules.model_fields:
            return f"{section}.{key}"
    close = difflib.get_close_matches(first, KEYS, n=1, cutoff=0.6)
    if close:
        return f"{close[0]}{dot}{rest}"
    return f"trainer.args.{key}" if adapter is None and not dot else None


def _adapter(recipe: Recipe | None) -> type[Adapter] | None:
    try:
        return load_adapter(recipe.trainer.adapter) if recipe is not None else None
    except BadInput:
        return None  # told elsewhere


def _refusal(override: Override, recipe: Recipe, adapter: type[Adapter]) -> Fault | None:
    """What the trainer says of the override as an argument of its own; None where it takes it."""
    key = f"trainer.args.{override.key}"
    trainer = recipe.trainer.model_copy(update={"args": {**recipe.trainer.args, override.key: override.parsed()}})
    asked = recipe.model_copy(update={"trainer": trainer, "data": None})  # a data set takes long to look at
    return next((fault for fault in adapter(asked).check() if fault.key == key), None)
