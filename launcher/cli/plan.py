"""The verb ``plan``: a recipe, or a command of the person's after ``--``, and the cards to plan for."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.call import Answer, Call, Task
from launcher.cli.run import understand
from launcher.cli.terminal import Terminal
from launcher.cli.train import drafts, each
from launcher.errors import COMMAND_LINE, BadInput, Fault

if TYPE_CHECKING:
    from launcher.adapter.protocol import Adapter
    from launcher.config.recipe import Draft
    from launcher.pretended.catalogue import GpuModel

GPU = "gpu="


def plan(call: Call) -> Iterable[Task]:
    from launcher.cli import recipe_draft, recognise

    words, drafted = [word for word in call.words if not word.startswith(GPU)], None
    if call.command:  # a recipe that is written nowhere
        understood = understand(call)
        name = recognise.name_of(understood)
        words, drafted = [f"recipe={name}", *words], {name: recipe_draft.recipe(understood, name=name)}
    return each(drafts(call, words, drafted), call, partial(_plan, models=_cards(call.words)))


def _cards(words: Sequence[str]) -> list[GpuModel]:
    """Those that are named. Raises BadInput where there is none, or one that isn't known."""
    from launcher.pretended import catalogue

    names = [name for word in words if word.startswith(GPU) for name in word.removeprefix(GPU).split(",") if name]
    if not names:
        known = catalogue.known()
        cure = f"Name one or several: gpu={','.join(known[:2])}. There is: {', '.join(known)}. What is here, `autofit fit` really tries."
        raise BadInput([Fault(key="gpu", where=COMMAND_LINE, found="no card is named", cure=cure)])
    return catalogue.named(names)


def _plan(draft: Draft, terminal: Terminal, *, models: Sequence[GpuModel]) -> Answer:
    from launcher.cli import plan_view
    from launcher.engine.state import Status, exit_code_of, status_of
    from launcher.pretended.plan import for_a_plan, planned

    if draft.recipe is None:
        raise BadInput(draft.faults)
    typed = draft.provenance.where("device.memory") == COMMAND_LINE  # a recipe's is another device's
    with tempfile.TemporaryDirectory(prefix="autofit-") as place:
        recipe = for_a_plan(draft.recipe, memory=draft.recipe.device.memory if typed else None, root=place)
        adapter = _with_data(replace(draft, recipe=recipe), terminal, Path(place, "data"))
        cards = planned(adapter, models, python=_python(adapter), tell=terminal.say)
    plan_view.show(cards, terminal.console)
    ended = next((status_of(one.ended_by.kind) for one in cards if one.ended_by), Status.NO_RUNG_FITS)
    status = Status.DONE if any(one.rung for one in cards) else ended
    record = {"status": status, "evidence": plan_view.EVIDENCE, "cards": list(map(plan_view.record, cards))}
    return Answer(status=exit_code_of(status), record=record)


def _with_data(draft: Draft, terminal: Terminal, place: Path) -> Adapter:
    """The recipe's adapter, checked; where its data isn't here and small data can be made, on that. Raises BadInput with all faults."""
    from launcher.adapter.registry import load_adapter
    from launcher.engine import prepare

    assert draft.recipe is not None
    recipe, faults, adapter = draft.recipe, draft.faults, load_adapter(draft.recipe.trainer.adapter)(draft.recipe)
    found = recipe.prepare or os.path.exists(recipe.data or "") or draft.provenance.where("data") == COMMAND_LINE
    if not found and (small := adapter.stand_in(place)) is not None and any(fault.key == "data" for fault in (*faults, *adapter.check())):
        maker = " ".join(os.path.basename(word) for word in (small.prepare or ())[1:] if str(place) not in word)
        terminal.say(f"no data is here{f' ({recipe.data})' if recipe.data else ''}; in its place, what this makes: {maker}")
        recipe, faults = small, tuple(fault for fault in faults if fault.key != "data")
    return prepare.checked(replace(draft, recipe=recipe), list(faults), make_data=True)[0]


def _python(adapter: Adapter) -> str:
    """The interpreter that the trainer runs on: of a command its own."""
    from launcher.machine import process

    command = adapter.recipe.trainer.args.get("command") if adapter.general else None
    words = shlex.split(command) if isinstance(command, str) else command
    return process.interpreter_of(str(words[0])) if words else sys.executable
