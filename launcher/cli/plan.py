"""The verb ``plan``: a recipe, or a command of the person's after ``--``, and the cards to plan for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from launcher.cli.call import Answer, Call, Task
from launcher.cli.run import understand
from launcher.cli.terminal import Terminal
from launcher.cli.train import each_of
from launcher.config import compose
from launcher.errors import BadInput, ExitCode, Fault
from launcher.shared.activity import doing

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
    from launcher.forecast.plan import planned

    if _takes_any_command(draft):
        if not gpus or not _no_card_here(draft):
            return _extrapolated(draft, gpus, terminal)
        from launcher.cli import played

        return played.plan(call, gpus)
    if not gpus:
        from launcher.cli.played import no_card

        raise BadInput([no_card()])
    with doing("tracing the trainer's own model, without its memory"):
        made = planned(draft, gpus)
    terminal.plan(made)
    return Answer(status=ExitCode.DONE, record=made.record())


def _takes_any_command(draft: Draft) -> bool:
    from launcher.adapter.registry import load_adapter

    with suppress(BadInput):  # told with all other faults
        return draft.recipe is not None and load_adapter(draft.recipe.trainer.adapter).general
    return False


def _no_card_here(draft: Draft) -> bool:
    from launcher.machine import devices

    assert draft.recipe is not None
    return devices.identity(draft.recipe.device.kind, index=draft.recipe.device.index) == "cpu"


def _extrapolated(draft: Draft, gpus: list[str], terminal: Terminal) -> Answer:
    """A training that can't be traced, by two small real trials on the device that is here."""
    from launcher.engine import state
    from launcher.engine.fit import try_some
    from launcher.forecast import gpu_catalogue, script_plan
    from launcher.forecast.plan import for_cards
    from launcher.ladder import search
    from launcher.trial.trial import as_tried

    assert draft.recipe is not None
    chosen = gpu_catalogue.named(gpus)
    job, trials = try_some(draft, terminal.display().hear, script_plan.to_try)
    seen, last = search.seen_in([as_tried(one, job) for one in trials]), trials[-1].verdict
    made = None
    if sum(one.verdict.fits for one in trials) == script_plan.POINTS:
        made = script_plan.planned(for_cards(draft), job.ladder, seen, job.budget, chosen)
        terminal.plan(made)
    status = state.Status.DONE if last.fits else state.status_of(last.kind)
    record = {"status": status, "trials": [one.as_record() for one in trials], "run_dir": str(job.folder.path)}
    record = {**(made.record() if made is not None else {}), **record}
    job.folder.replace_json(job.folder.record, record)
    if made is None and last.fits:
        raise BadInput([_no_line(trials[-1].rung.micro_batch)])
    return Answer(status=state.exit_code_of(status), record=record)


def _no_line(micro_batch: int) -> Fault:
    found = f"micro-batch {micro_batch} is the only one that could be tried and fits, and one point is no line"
    return Fault(key="ladder.wheels.micro_batch", found=found, cure="`autofit fit` finds the rung by real trials.")
