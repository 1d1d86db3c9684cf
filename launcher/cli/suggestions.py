"""Suggests what was probably meant by overrides that no recipe has: ``batch=16`` is ``ask.micro_batch=16``.

Nobody asks the trainer: a name that is nothing of autofit's is taken for one of its arguments, which its adapter checks.
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

if TYPE_CHECKING:
    from launcher.config.recipe import Draft

KEYS = (*Recipe.model_fields, "recipe", "hydra")


def drafts(words: Sequence[str], *, program: str, drafted: Mapping[str, str] | None = None) -> list[Draft]:
    """``compose.composed``, with what was probably meant by words, flags and keys that have no place."""
    line, texts = compose.read(words), drafted or {}
    if line.unknown:
        raise BadInput(_dashed(line.unknown))
    recipes = {*recipe_files(), *texts}
    lost = [word for word in line.overrides if not _has_a_place(word)]
    refused = compose.no_recipe(line, known=sorted(recipes))
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
        key = name.lstrip("-").replace("-", "_")
        meant = key if _has_a_place(f"{key}={value}") else _meant(key, None)
        known = "`autofit --help` lists autofit's, `autofit train --hydra-help` Hydra's."
        cure = f"Did you mean {meant}={value or '...'}?" if meant and (value or not meant.startswith("trainer.args.")) else known
        found.append(Fault(key="", where=COMMAND_LINE, found=f"there is no flag {name}", cure=cure))
    return found


def _in_recipe(draft: Draft) -> list[Fault]:
    """The draft's faults; those of keys that stand in the wrong place of its recipe say where they were probably meant to stand."""
    return [_moved(fault, draft) if fault.key in draft.unknown else fault for fault in draft.faults]


def _moved(fault: Fault, draft: Draft) -> Fault:
    section, _, name = fault.key.rpartition(".")
    meant = _meant(name, _adapter(draft.recipe)) if section in ("", "trainer") else None
    value = f"={draft.unknown[fault.key]}" if fault.where == COMMAND_LINE else ""
    return replace(fault, cure=f"Did you mean {meant}{value}?") if meant else fault


def _fault(word: str, recipe: Recipe | None, recipes: Iterable[str]) -> Fault:
    override, adapter = override_in(word), _adapter(recipe)
    if override is None:
        name = PurePath(word).stem
        cure = f"Did you mean recipe={name}?" if name in recipes else "Overrides are KEY=VALUE; a command stands behind autofit run --."
        return Fault(key="", where=COMMAND_LINE, found=f"{word!r} is no KEY=VALUE", cure=cure)
    cure = f"Keys are {', '.join(KEYS[:-1])}; the trainer's own arguments are trainer.args.NAME."
    if meant := _meant(override.key, adapter):
        cure = f"Did you mean {meant}={override.value}?"
    elif adapter is not None and adapter.general:
        cure = f"A script's own settings stand in its command: behind --, or in its recipe: trainer.args.set={{--{override.key}:...}}."
    return Fault(key=override.key, where=COMMAND_LINE, found="autofit has no key of that name", cure=cure)


def _meant(key: str, adapter: type[Adapter] | None) -> str | None:
    """The key that has a place: a wheel, a section's, one that is spelled nearly so, or the trainer's own argument."""
    first, dot, rest = key.partition(".")
    if (wheel := meaning(key)) and (adapter is None or wheel in (*adapter.wheels, "accumulation")):
        return f"ask.{wheel}"
    if adapter is not None and key in adapter.wheels:
        return f"ask.{key}"
    if section := next((name for name, rules in SECTIONS.items() if first in rules.model_fields), None):
        return f"{section}.{key}"
    if close := difflib.get_close_matches(first, KEYS, n=1, cutoff=0.6):
        return f"{close[0]}{dot}{rest}"
    return None if dot or not key.isidentifier() or (adapter is not None and adapter.general) else f"trainer.args.{key}"


def _adapter(recipe: Recipe | None) -> type[Adapter] | None:
    try:
        return load_adapter(recipe.trainer.adapter) if recipe is not None else None
    except BadInput:
        return None  # told elsewhere
