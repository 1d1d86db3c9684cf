"""Recipes, and what an adapter reads of a trainer's words."""

from __future__ import annotations

from collections.abc import Iterable

from launcher.adapter.build import ladder_of
from launcher.adapter.progress import Progress
from launcher.adapter.registry import load_adapter
from launcher.config.schema import LadderRules, Recipe, TrainerRules
from launcher.ladder.rungs import Rung


def of_trainer(recipe: Recipe, lines: Iterable[str]) -> list[Progress]:
    adapter = load_adapter(recipe.trainer.adapter)(recipe)
    rung: Rung = ladder_of(adapter).asked
    known, all_of_it = Progress(), []
    for line in lines:
        known = adapter.read_log(line, known, rung=rung).progress
        all_of_it.append(known)
    return all_of_it


def recipe(adapter: str, *, task: str | None = None, **args: object) -> Recipe:
    return Recipe(
        name="mine",
        ask={"micro_batch": 8, "accumulation": 2},
        trainer=TrainerRules(adapter=adapter, task=task, args=args),
        ladder=LadderRules(order=("micro_batch",)),
    )
