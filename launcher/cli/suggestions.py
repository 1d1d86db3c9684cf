"""Suggests what was probably meant by overrides that no recipe has: ``batch=16`` is ``ask.micro_batch=16``.

Which trainer's words they are is asked of the adapter of the recipe that the other words compose to.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from launcher.adapter.protocol import Adapter
from launcher.adapter.registry import load_adapter
from launcher.adapter.wheel_names import meaning
from launcher.config import compose
from launcher.config.hydra_overrides import override_in
from launcher.config.recipe_files import recipe_files
from launcher.config.schema import SECTIONS, Recipe
from launcher.errors import COMMAND_LINE, BadInput, Fault
from launcher.shared import synonyms

if TYPE_CHECKING:
    from launcher.config.recipe import Draft

KEYS = (*Recipe.model_fields, "recipe", "hydra")


def drafts(words: Sequence[str], *, program: str, drafted: Mapping[str, str] | None = None) -> list[Draft]:
    """``compose.composed``, with what was probably meant by words, flags and keys that have no place."""
    line, texts = compose.read(words), drafted or {}
    recipes = {*recipe_files(), *texts}
    lost = [word for word in line.overrides if not _has_a_place(word)]
    refused = [*_dashed(line.unknown), *compose.several_cards(line)] or compose.unknown_recipes(line, known=sorted(recipes))
    try:
        if refused or (lost and line.only_shows):
            raise BadInput(refused)
        kept = tuple(word for word in line.overrides if word not in lost)
        found = compose.composed(replace(line, overrides=kept), program=program, drafted=texts)
    except BadInput as refusal:
        raise BadInput([*refusal.faults, *(_fault(word, None, recipes) for word in lost)]) from refusal
    return [replace(one, faults=(*_in_recipe(one), *(_fault(word, one.recipe, recipes) for word in lost))) for one in found]


def _has_a_place(word: str) -> bool:
    override = override_in(word)
    key = override.key if override is not None else word.removeprefix("~")
    return (override is not None or word.startswith("~")) and re.split(r"[./@]", key)[0] in KEYS


def _dashed(flags: Iterable[str]) -> list[Fault]:
    """A fault for each flag that nobody knows, ``--recipe=mine`` and ``--batch-size=16``: most are meant as KEY=VALUE."""
    found = []
    for flag in flags:
        name, _, value = flag.partition("=")
        word = f"{name.lstrip('-').replace('-', '_')}={value}"
        meant = word if _has_a_place(word) else _meant(word.partition("=")[0], None, is_own=False)
        meant = meant if meant is None or "=" in meant else f"{meant}={value}"
        cure = f"Did you mean {meant}?" if value and meant else "`autofit --help` lists autofit's, `autofit train --hydra-help` Hydra's."
        found.append(Fault(key="", where=COMMAND_LINE, found=f"there is no flag {name}", cure=cure))
    return found


def _in_recipe(draft: Draft) -> list[Fault]:
    """The draft's faults; those of keys that stand in the wrong place of its recipe say where they were probably meant to stand."""
    return [_moved(fault, draft) if fault.key in draft.unknown else fault for fault in draft.faults]


def _moved(fault: Fault, draft: Draft) -> Fault:
    section, _, name = fault.key.rpartition(".")
    if section not in ("", "trainer") or not name.isidentifier():
        return fault
    value = draft.unknown[fault.key]
    meant, _ = _meaning(name, value, draft.recipe)
    if meant is None:
        return fault
    return replace(
        fault, cure=f"Did you mean {meant}={value}?" if fault.where == COMMAND_LINE else f"Did you mean {_nested(meant, value)}?"
    )


def _nested(key: str, value: object) -> str:
    """``ask.micro_batch`` as a recipe writes it."""
    first, *inner = key.split(".")
    return f"{first}: {_nested('.'.join(inner), value).join('{}')}" if inner else f"{first}: {value}"


def _fault(word: str, recipe: Recipe | None, recipes: Iterable[str]) -> Fault:
    override = override_in(word)
    if override is None:
        name = PurePath(word).stem
        cure = f"Did you mean recipe={name}?" if name in recipes else "Overrides are KEY=VALUE, as in ask.micro_batch=16."
        return Fault(key="", where=COMMAND_LINE, found=f"{word!r} is no KEY=VALUE", cure=cure)
    meant, refusal = _meaning(override.key, override.parsed(), recipe)
    adapter = _adapter(recipe)
    found = "autofit has no key of that name"
    if meant is not None:
        cure = f"Did you mean {meant}={override.value}?"
    elif adapter is not None and adapter.general:
        cure = f"A script's own settings stand in its command: behind --, or in its recipe: trainer.args.set={{--{override.key}:...}}."
    elif refusal is not None:
        found, cure = f"{found}, and {refusal.key} is refused: {refusal.found}", refusal.cure
    else:
        cure = f"Keys are {', '.join(KEYS[:-1])}; the trainer's own arguments are trainer.args.NAME."
    return Fault(key=override.key, where=COMMAND_LINE, found=found, cure=cure)


def _meaning(key: str, value: object, recipe: Recipe | None) -> tuple[str | None, Fault | None]:
    """(the key that has a place; what the trainer says where it was asked for an argument of that name, and refuses)"""
    adapter = _adapter(recipe)
    if adapter is None or recipe is None or not key.isidentifier():
        return _meant(key, adapter, is_own=False), None
    refusal = _refusal(key, value, recipe, adapter)
    if (meant := _meant(key, adapter, is_own=refusal is None)) is not None:
        return meant, refusal
    for other in synonyms.of(key):
        if other in adapter.wheels:
            return f"ask.{other}", refusal
        if not adapter.general and _refusal(other, value, recipe, adapter) is None:
            return f"trainer.args.{other}", refusal
    return None, refusal


def _meant(key: str, adapter: type[Adapter] | None, *, is_own: bool) -> str | None:
    """The key that has a place. A wheel comes first, then the trainer's own argument, then what is spelled nearly so."""
    first, dot, rest = key.partition(".")
    wheels = {*adapter.wheels, "accumulation"} if adapter is not None else None
    for wheel in (key, meaning(key) if not dot else None):
        if wheel is not None and (wheel in wheels if wheels is not None else wheel == meaning(key)):
            return f"ask.{wheel}"
    if is_own:
        return f"trainer.args.{key}"
    for section, rules in SECTIONS.items():
        if first in rules.model_fields:
            return f"{section}.{key}"
    close = difflib.get_close_matches(first, KEYS, n=1, cutoff=0.6)
    if close:
        return f"{close[0]}{dot}{rest}"
    return f"trainer.args.{key}" if adapter is None and not dot else None


def _refusal(key: str, value: object, recipe: Recipe, adapter: type[Adapter]) -> Fault | None:
    """What the trainer says of an argument of its own by that name; None where it takes it."""
    trainer = recipe.trainer.model_copy(update={"args": {**recipe.trainer.args, key: value}})
    asked = recipe.model_copy(update={"trainer": trainer, "data": None})  # a data set takes long to look at
    return next((fault for fault in adapter(asked).check() if fault.key == f"trainer.args.{key}"), None)


def _adapter(recipe: Recipe | None) -> type[Adapter] | None:
    try:
        return load_adapter(recipe.trainer.adapter) if recipe is not None else None
    except BadInput:
        return None  # told elsewhere
