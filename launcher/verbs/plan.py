"""The verb ``plan``: a recipe, or a command of the person's after ``--``, and the cards to plan for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from launcher import compose
from launcher.errors import COMMAND_LINE, BadInput, ExitCode, Fault
from launcher.terminal import Terminal
from launcher.verbs.base import Answer, Call, Task

if TYPE_CHECKING:
    from launcher.recipe import Draft

_GPU = "gpu="


def plan(call: Call) -> Iterator[Task]:
    gpus = [name for word in call.words if word.startswith(_GPU) for name in word.removeprefix(_GPU).split(",") if name]
    words = tuple(word for word in call.words if not word.startswith(_GPU))
    if not gpus:
        raise BadInput([_no_card()])
    drafted = _drafted(call)
    if drafted:
        words = (f"recipe={next(iter(drafted))}", *words)
    return (partial(_plan, draft, gpus, call.terminal) for draft in compose.drafts(words, program=f"autofit {call.verb}", drafted=drafted))


def _no_card() -> Fault:
    from launcher.forecast import cards

    return Fault(key="gpu", where=COMMAND_LINE, found="no card is named", cure=f"Name one or several: gpu={','.join(cards.known()[:2])}. "
                 f"There is: {', '.join(cards.known())}.")  # fmt: skip


def _drafted(call: Call) -> Mapping[str, str] | None:
    """A command as a recipe that is written nowhere."""
    if not call.command:
        return None
    from launcher.commandline import draft, recognise

    understood = recognise.understand(call.command)
    recognise.refuse_doubts(understood, overrides=call.words)
    name = recognise.name_of(understood)
    return {name: draft.recipe(understood, name=name)}


def _plan(draft: Draft, gpus: list[str], terminal: Terminal) -> Answer:
    from launcher.forecast import plan as plans

    made = plans.planned(draft, gpus)
    terminal.plan(made)
    return Answer(status=ExitCode.DONE, record=made.record())
