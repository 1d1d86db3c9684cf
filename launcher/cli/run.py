"""Verbs that take a command of the person's after ``--``: run, init."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.call import Answer, Call, Task
from launcher.cli.detach import detached, wants_detach
from launcher.cli.train import each_of, fit_draft, train_draft
from launcher.config import compose
from launcher.errors import BadInput, ExitCode, Fault
from launcher.shared.activity import doing

if TYPE_CHECKING:
    from launcher.adapter.recognised import Understood

FIT_ONLY = "--fit-only"
ALLOW_BATCH = "--allow-batch"
"""The person accepts another effective batch than the asked one."""
CHECKPOINTING = "--checkpointing"
"""A part of the model's repeated modules may be checkpointed, from outside where the command has no word for it."""
SET = "--set"
"""The person names the value of the script's own that is its batch size: ``--set "CONFIG['batch']"``."""


def run(call: Call) -> Iterable[Task]:
    """The command as a recipe that is written nowhere, then as with any recipe."""
    from launcher.adapter.recognised import free_batch
    from launcher.cli import recipe_draft, recognise, suggestions

    if wants_detach(call):
        return [partial(detached, call)]
    understood, words = understand(call), _overrides(call)
    if ALLOW_BATCH in call.flags:
        understood, words = free_batch(understood), (*words, "ladder.keep_batch=false")
    name = recognise.name_of(understood)
    body = fit_draft if FIT_ONLY in call.flags else train_draft
    drafted = {name: recipe_draft.recipe(understood, name=name)}
    words = (f"recipe={name}", *words)
    drafts = compose.drafts(words, program=f"autofit {call.verb}", advice=suggestions, drafted=drafted)
    if by_hydra := compose.launcher_words(words):
        from launcher.cli import sweep

        return [partial(sweep.through, by_hydra, drafts, call.terminal, fit_only=FIT_ONLY in call.flags)]
    return each_of(drafts, call.terminal, body)


def init(call: Call) -> Answer:
    """The command as a recipe of the person's own, in ./recipes."""
    from launcher.cli import recipe_draft, recognise

    understood = understand(call)
    name = recognise.name_of(understood)
    text = recipe_draft.recipe(understood, name=name)
    return _kept(text, Path("recipes") / f"{name}.yaml", call)


def understand(call: Call) -> Understood:
    """What the command is taken for, and says so. Raises BadInput where it can't be told."""
    from launcher.adapter.recognised import checkpointed
    from launcher.cli import recipe_draft, recognise

    with doing("reading the command, and what it runs"):
        understood = recognise.understand(call.command, value=_named(call))
    recognise.refuse_doubts(understood, overrides=call.words)
    recognise.refuse_cards(understood, overrides=call.words)
    understood = recognise.on_cpu(understood, overrides=call.words)
    call.terminal.say(f"autofit takes this for {understood.adapter}:", *(f"  {line}" for line in recipe_draft.beliefs(understood)))
    for doubt in understood.doubts:
        call.terminal.say(f"  in doubt: {doubt}")
    return checkpointed(understood) if CHECKPOINTING in call.flags else understood


def _named(call: Call) -> str:
    """What stands behind ``--set``: the one word that is no override."""
    if SET not in call.flags:
        return ""
    words = [word for word in call.words if word not in _overrides(call)]
    if len(words) != 1:
        cure = f"Give one value, as the source has it: autofit {call.verb} {SET} \"CONFIG['batch']\" -- python train.py."
        raise BadInput([Fault(key="", where="autofit", found=f"{SET} with {len(words)} names", cure=cure)])
    return words[0]


def _overrides(call: Call) -> tuple[str, ...]:
    return tuple(word for word in call.words if SET not in call.flags or "=" in word or word.startswith("-"))


def _kept(text: str, path: Path, call: Call) -> Answer:
    """Writes a new recipe; never over one that is there."""
    if path.exists():
        found, cure = f"{path} is there already; it was not changed", "Rename it, or edit it."
        raise BadInput([Fault(key="", where="autofit", found=found, cure=cure)])
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    call.terminal.say(f"written: {path}")
    return Answer(status=ExitCode.DONE, record={"status": "done", "recipe": str(path)})
