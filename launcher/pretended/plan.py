"""A plan: the first rung of a ladder that fits each card, by short trials (training and validation) on cards that aren't here.

What a rung needs doesn't hang on how much memory a card has. So each is played once for an architecture, on a pretended card that has more
than all that are asked; the search on each card reads these needs, and has a rung played only where it is the first to ask.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from launcher.adapter.protocol import Adapter
from launcher.config.schema import Recipe
from launcher.history.run_folder import RunFolder
from launcher.ladder import build, search
from launcher.ladder.rungs import Ladder, Rung
from launcher.ladder.verdict import Kind, Verdict
from launcher.machine.devices import Budget
from launcher.machine.headroom import DEFAULT
from launcher.pretended.cards import CAPABILITY, MARK, Cards, played
from launcher.pretended.catalogue import GpuModel
from launcher.shared.activity import doing
from launcher.shared.sizes import format_size
from launcher.trial import rung_zero, trial
from launcher.trial.job import Job
from launcher.trial.trial import Trial, as_tried

AMPLE = 2
"""The played card has so many times the memory of the largest that is asked: what a rung needs beyond a card is measured, and a trial that
needs far more ends early."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OnCard:
    """The search on one card."""

    card: GpuModel
    cap_bytes: int
    ladder: Ladder
    rung: Rung | None
    """The first that fits."""
    trials: Mapping[int, Trial]
    """By rung index: all that were played for its architecture, as they would have ended on this card."""

    @property
    def ended_by(self) -> Verdict | None:
        """What ended the search without a rung, where that was no lack of memory."""
        seen = (one.verdict for one in self.trials.values() if self.rung is None)
        return next((one for one in seen if not one.fits and not one.lower_rung_may_help), None)


def on_card(one: Trial, card: GpuModel, cap_bytes: int) -> Trial:
    """A trial on the ample card, which has no context, as it would have ended on this one."""
    uses = tuple(replace(use, outside_bytes=use.outside_bytes + card.context_bytes) for use in one.report.uses)
    verdict = replace(one.verdict, peak_bytes=one.verdict.peak_bytes + card.context_bytes)
    if verdict.peak_bytes > cap_bytes:
        phase = next((use.phase for use in uses if use.held_bytes > cap_bytes), verdict.phase)
        why = f"needs {format_size(verdict.peak_bytes)}{'' if verdict.fits else ' at least'}"
        verdict = replace(verdict, kind=Kind.OUT_OF_MEMORY, phase=phase, why=why, source="measured")
    return replace(one, verdict=verdict, report=replace(one.report, uses=uses, cap_bytes=cap_bytes))


def first_that_fits(ladder: Ladder, *, needs: dict[int, Trial], play: Callable[[Rung], Trial], card: GpuModel, cap: int) -> Rung | None:
    """The search on a card. ``needs``, by rung index, are read, and get what has to be played for this card."""
    while True:
        seen = [replace(as_tried(on_card(one, card, cap), cap), measured=one.verdict.fits) for one in needs.values()]
        move = search.next_move(ladder, seen, policy="predicted")
        if not isinstance(move, search.Try):
            return move.rung if isinstance(move, search.Chosen) else None
        needs[move.rung.index] = play(move.rung)


def for_a_plan(recipe: Recipe, *, memory: int | None, root: str) -> Recipe:
    """The recipe as it is played: on a card, ended after validation, with nothing written outside of ``root``."""
    device, trial_rules = {"kind": "cuda", "memory": memory}, {"steps_after": 0, "resume": False}
    rules: dict[str, dict[str, Any]] = {"device": device, "trial": trial_rules, "run": {"root": root}}
    return recipe.model_copy(update={name: getattr(recipe, name).model_copy(update=update) for name, update in rules.items()})


def planned(adapter: Adapter, models: Sequence[GpuModel], *, python: str, tell: Callable[[str], None]) -> list[OnCard]:
    """The answer for each card, of a recipe as ``for_a_plan`` gives it. ``python``: what the trainer runs on; ``tell`` hears of the trials.

    Raises BadInput where no card can be pretended here.
    """
    found = dict[str, OnCard]()
    for capability in dict.fromkeys(CAPABILITY[one.architecture] for one in models):
        alike = sorted((one for one in models if CAPABILITY[one.architecture] == capability), key=lambda one: -one.usable_bytes)
        with _on_ample_cards(adapter, alike[0], python) as job:
            play, needs = partial(_play, job, tell), dict[int, Trial]()
            if not found and (believed := _believed(job.adapter, needs, play)) is not None:
                return planned(believed, models, python=python, tell=tell)
            rungs = {one.name: first_that_fits(job.ladder, needs=needs, play=play, card=one, cap=_cap(one, job)) for one in alike}
        for one in alike:
            trials = {index: on_card(needs[index], one, _cap(one, job)) for index in sorted(needs)}
            found[one.name] = OnCard(card=one, cap_bytes=_cap(one, job), ladder=job.ladder, rung=rungs[one.name], trials=trials)
    return [found[one.name] for one in models]


def _cap(card: GpuModel, job: Job) -> int:
    """What a trial on the card would be held to."""
    device = job.recipe.device
    headroom = DEFAULT["cuda"] if device.headroom is None else device.headroom
    return int(min(card.usable_bytes, device.memory or card.usable_bytes) * (1 - headroom))


def _believed(adapter: Adapter, needs: dict[int, Trial], play: Callable[[Rung], Trial]) -> Adapter | None:
    """The adapter by what rung 0 of a person's own command ran, where that isn't what was read of it; ``needs`` get that trial."""
    if not adapter.general:
        return None
    needs[0] = play(build.ladder_of(adapter).asked)
    told = rung_zero.showed([needs[0]], unsaid=adapter.asked.unsaid)
    believed = adapter.believing(told.ran, told.arrived) if told is not None else None
    return type(adapter)(believed) if believed is not None else None


@contextmanager
def _on_ample_cards(adapter: Adapter, model: GpuModel, python: str) -> Iterator[Job]:
    """The recipe's trials on cards of one architecture; this process has their environment while it is open."""
    model = model.model_copy(update={"usable_mib": AMPLE * model.usable_mib, "context_mib": 0})
    ladder, folder = build.ladder_of(adapter), RunFolder.create(Path(adapter.recipe.run.root), "plan")
    cards = Cards(model=model, count=max(rung.world_size for rung in ladder.rungs), computed="small")
    all_of_it: Any = dict.fromkeys(("total_bytes", "free_bytes", "budget_bytes", "cap_bytes", "ceiling_bytes"), model.usable_bytes)
    one = Budget(kind="cuda", index=0, name=f"{model.title}{MARK}", headroom=0.0, neighbours=(), emulated=False, notes=(), **all_of_it)
    before = dict(os.environ)
    with played(cards, python=python) as environment:
        each = tuple(replace(one, index=at, uuid=uuid) for at, uuid in enumerate(cards.uuids(environment)))
        budgets = {count: replace(each[0], ranks=each[:count] if count > 1 else ()) for count in range(1, cards.count + 1)}
        os.environ.update(environment)
        try:
            yield Job(adapter=adapter, ladder=ladder, budget=each[0], by_cards=budgets, folder=folder)
        finally:
            os.environ.clear()
            os.environ.update(before)


def _play(job: Job, tell: Callable[[str], None], rung: Rung) -> Trial:
    with doing(f"playing rung {rung.index}: training and validation"):
        tried = trial.run(job, rung)
    also = "" if tried.verdict.fits else f" and more ({tried.verdict.kind} in {tried.verdict.phase})"
    tell(f"  rung {rung.index}: {format_size(tried.verdict.peak_bytes)}{also}, {tried.seconds:.0f} s")
    return tried
