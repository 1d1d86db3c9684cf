"""Verbs that take a command of the person's after ``--``: run, init."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autofit_launcher.cli.call import ALLOW_BATCH, ALLOW_DIFFERENCE, CHECKPOINTING, FIT_ONLY, GIVE_UP, SET, Answer, Call, Task
from autofit_launcher.cli.detach import detached, wants_detach
from autofit_launcher.cli.train import launches
from autofit_launcher.errors import BadInput, ExitCode, Fault
from autofit_launcher.shared.activity import doing

if TYPE_CHECKING:
    from autofit_launcher.adapter.recognised import Understood


def run(call: Call) -> Iterable[Task]:
    """Launches the command as a recipe that is written nowhere, then as with any recipe."""
    from autofit_launcher.adapter.recognised import free_batch
    from autofit_launcher.cli import recipe_draft, recognise

    if wants_detach(call):
        return [partial(detached, call)]
    understood, words = understand(call), call.words
    if ALLOW_BATCH in call.flags:
        understood, words = free_batch(understood), (*words, "ladder.keep_batch=false")
    if ALLOW_DIFFERENCE in call.flags:
        words = (*words, "ladder.keep_update=false")
    name = recognise.name_of(understood)
    drafted = {name: recipe_draft.recipe(understood, name=name)}
    return launches(call, (f"recipe={name}", *words), fit_only=FIT_ONLY in call.flags, drafted=drafted)


def init(call: Call) -> Answer:
    """Writes the command as a recipe of the person's own, in ./recipes."""
    from autofit_launcher.cli import recipe_draft, recognise

    understood = understand(call)
    name = recognise.name_of(understood)
    text = recipe_draft.recipe(understood, name=name)
    return _kept(text, Path("recipes") / f"{name}.yaml", call)


def understand(call: Call) -> Understood:
    """Finds what the command is taken for, and says so. Raises BadInput where it can't be told."""
    from autofit_launcher.adapter.recognised import checkpointed, giving_up
    from autofit_launcher.adapter.registry import load_adapter
    from autofit_launcher.cli import recipe_draft, recognise

    with doing("reading the command, and what it runs"):
        understood = recognise.understand(call.command, value=call.values.get(SET, ""))
    if general := load_adapter(understood.adapter).general:
        recognise.refuse_program(understood)  # what is in doubt isn't turned
    else:
        recognise.refuse_doubts(understood, overrides=call.words)
    recognise.refuse_cards(understood, overrides=call.words)
    understood = recognise.on_cpu(understood, overrides=call.words)
    what = "understood of the command:" if general else f"understood as a training by {understood.adapter}:"
    if said := recipe_draft.beliefs(understood):
        call.terminal.say(what, *(f"  {line}" for line in said))
    for doubt in understood.doubts:
        if str(doubt) != understood.args.get("unturned"):  # the launch says that itself
            call.terminal.say(f"  in doubt: {doubt}")
    understood = checkpointed(understood) if CHECKPOINTING in call.flags else understood
    return giving_up(understood, [name for name in call.values.get(GIVE_UP, "").split(",") if name])


def _kept(text: str, path: Path, call: Call) -> Answer:
    """Writes a new recipe; never over one that is there."""
    if path.exists():
        found, cure = f"{path} is there already; it was not changed", "Rename it, or edit it."
        raise BadInput([Fault(key="", where="autofit", found=found, cure=cure)])
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    call.terminal.say(f"written: {path}")
    return Answer(status=ExitCode.DONE, record={"status": "done", "recipe": str(path)})
