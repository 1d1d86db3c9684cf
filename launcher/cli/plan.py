"""The verb ``plan``: a recipe, or a command of the person's after ``--``, and the cards to plan for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from launcher.cli.call import Answer, Call, Task
from launcher.cli.run import understand
from launcher.cli.terminal import Terminal
from launcher.cli.train import each_of
from launcher.config import compose
from launcher.errors import BadInput

if TYPE_CHECKING:
    from launcher.config.recipe import Draft


def plan(call: Call) -> Iterator[Task]:
    from launcher.cli.played import GPU, gpus_of

    gpus = gpus_of(call.words)
    words = tuple(word for word in call.words if not word.startswith(GPU))
    drafted = _drafted(call)
    if drafted:
        words = (f"recipe={next(iter(drafted))}", *words)
    from launcher.cli import suggestions

    drafts = compose.drafts(words, program=f"autofit {call.verb}", advice=suggestions, drafted=drafted)
    return each_of(drafts, call.terminal, partial(_plan, gpus=gpus, call=call))


def _drafted(call: Call) -> Mapping[str, str] | None:
    """A command as a recipe that is written nowhere."""
    if not call.command:
        return None
    from launcher.cli import recipe_draft, recognise

    understood = understand(call)
    name = recognise.name_of(understood)
    return {name: recipe_draft.recipe(understood, name=name)}


def _plan(draft: Draft, terminal: Terminal, *, gpus: list[str], call: Call) -> Answer:
    from launcher.cli import played

    if not gpus:
        raise BadInput([played.no_card()])
    return played.plan(call, gpus)
