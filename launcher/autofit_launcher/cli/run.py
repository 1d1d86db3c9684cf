"""Verbs that take a command of the person's after ``--``: run, init."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autofit_launcher.cli.call import Answer, Call, Takes, Task, verb
from autofit_launcher.cli.detach import DETACH, detached, wants_detach
from autofit_launcher.cli.train import each, launch
from autofit_launcher.errors import ExitCode, refusal
from autofit_launcher.shared.activity import doing

if TYPE_CHECKING:
    from autofit_launcher.adapter.recognised import Understood


_GIVE_UP = {
    "--give-up NAMES": "what may be given up, by name, where nothing else fits (image_size,sequence_length,model): unasked nothing is"
}
_UNDERSTOOD = {
    "--checkpointing": "checkpoint the model's repeated modules where less doesn't fit (slower, the same training)",
    "--set VALUE": "the value of the script's own that is its batch size, named as the source has it: \"CONFIG['batch']\"",
}


@verb(
    "[FLAG ...] [KEY=VALUE ...] -- COMMAND",
    "the same for a command you have, without a recipe",
    Takes.COMMAND,
    flags={
        "--fit-only": "trials only, as `autofit fit`",
        **_GIVE_UP,
        "--allow-batch": "accept another effective batch than the asked one, where the command has no word for accumulation",
        "--allow-difference": "launch a rung though its update was shown to differ from the asked one, with that difference told",
        **_UNDERSTOOD,
        **DETACH,
    },
    more="The script is not edited. What stands behind -- is yours, byte for byte.",
    examples=("autofit run -- python train.py --batch-size 64", "autofit run device.memory=16GiB -- torchrun train.py --bs 32"),
)
def run(call: Call) -> Iterable[Task]:
    """Launches the command as a recipe that is written nowhere, then as with any recipe."""
    from autofit_launcher.adapter.recognised import free_batch
    from autofit_launcher.cli import recipe_draft, recognise

    if wants_detach(call):
        return [partial(detached, call)]
    understood, words = understand(call), call.words
    if "--allow-batch" in call.flags:
        understood, words = free_batch(understood), (*words, "ladder.keep_batch=false")
    if "--allow-difference" in call.flags:
        words = (*words, "ladder.keep_update=false")
    name = recognise.name_of(understood)
    drafted = {name: recipe_draft.recipe(understood, name=name)}
    return each(call, (f"recipe={name}", *words), partial(launch, fit_only="--fit-only" in call.flags), drafted=drafted)


@verb(
    "[FLAG ...] -- COMMAND",
    "what was understood of it, as a recipe of your own",
    Takes.COMMAND,
    flags={**_GIVE_UP, **_UNDERSTOOD},
    more="It goes into ./recipes, never over one that is there.",
    examples=("autofit init -- python train.py --batch-size 64",),
)
def init(call: Call) -> Answer:
    from autofit_launcher.cli import recipe_draft, recognise

    understood = understand(call)
    name = recognise.name_of(understood)
    path = Path("recipes") / f"{name}.yaml"
    if path.exists():
        raise refusal(f"{path} is there already; it was not changed", "Rename it, or edit it.", where="autofit")
    path.parent.mkdir(exist_ok=True)
    path.write_text(recipe_draft.recipe(understood, name=name), encoding="utf-8")
    call.terminal.say(f"written: {path}")
    return Answer(status=ExitCode.DONE, record={"status": "done", "recipe": str(path)})


def understand(call: Call) -> Understood:
    """Finds what the command is taken for, and says so. Raises BadInput where it can't be told."""
    from autofit_launcher.adapter.recognised import checkpointed, giving_up
    from autofit_launcher.adapter.registry import load_adapter
    from autofit_launcher.cli import recipe_draft, recognise

    with doing("reading the command, and what it runs"):
        understood = recognise.understand(call.command, value=call.flags.get("--set", ""))
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
    understood = checkpointed(understood) if "--checkpointing" in call.flags else understood
    return giving_up(understood, [name for name in call.flags.get("--give-up", "").split(",") if name])
