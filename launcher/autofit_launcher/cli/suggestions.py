"""Suggests what was probably meant by overrides that no recipe has: ``batch=16`` is ``ask.micro_batch=16``. Nobody asks the trainer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from autofit_launcher.adapter.registry import adapters
from autofit_launcher.adapter.wheel_names import meaning
from autofit_launcher.config import compose
from autofit_launcher.config.hydra_overrides import override_in
from autofit_launcher.config.recipe import Draft
from autofit_launcher.config.recipe_files import recipe_files
from autofit_launcher.config.schema import SECTIONS, Recipe
from autofit_launcher.errors import COMMAND_LINE, BadInput, Fault

KEYS = (*Recipe.model_fields, "recipe", "hydra")


def drafts(
    words: Sequence[str], *, program: str, drafted: Mapping[str, str] | None = None, show: Callable[[str], None] = lambda said: None
) -> list[Draft]:
    """Composes as ``compose.composed`` does; tells what was probably meant by words and keys that have no place."""
    line, texts = compose.read(words), drafted or {}
    recipes = {*recipe_files(), *texts}
    lost = {word: fault for word in line.overrides if (fault := _lost(word, recipes)) is not None}
    try:
        if lost and line.only_shows:
            raise BadInput([])
        kept = tuple(word for word in line.overrides if word not in lost)
        found = compose.composed(replace(line, overrides=kept), program=program, drafted=texts, show=show)
    except BadInput as refusal:
        raise BadInput([*refusal.faults, *lost.values()]) from refusal
    return [replace(one, faults=(*one.faults, *lost.values())) for one in found]


def _lost(word: str, recipes: Iterable[str]) -> Fault | None:
    """Finds the fault of a word that has no place in a recipe; None for one that has."""
    override, name = override_in(word), PurePath(word).stem
    if override is None:
        cure = f"Did you mean recipe={name}?" if name in recipes else "Overrides are KEY=VALUE; a command stands behind autofit run --."
        return None if word.startswith("~") else Fault(key="", where=COMMAND_LINE, found=f"{word!r} is no KEY=VALUE", cure=cure)
    key, (first, *_) = override.key, re.split(r"[./@]", override.key)
    if first in KEYS:
        return None
    known = f"Keys are {', '.join(KEYS[:-1])}; a trainer's own arguments are trainer.args.NAME, a script's stand in its command."
    wheel = meaning(key) or next((key for one in adapters() if key in one.wheels), None)
    section = next((name for name, rules in SECTIONS.items() if first in rules.model_fields), None)
    close = next((key.replace(first, name, 1) for name in difflib.get_close_matches(first, KEYS, n=1)), "")
    meant = f"ask.{wheel}" if wheel else f"{section}.{key}" if section else close
    cure = f"Did you mean {meant}={override.value}?" if meant else known
    return Fault(key=key, where=COMMAND_LINE, found="autofit has no key of that name", cure=cure)
