"""What one process of a trial takes a step for: how many micro-batches are in it, whoever put them there."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from launcher.contract.orders import Orders
from launcher.contract.report import Phase
from launcher.trainers.script.inside.probe.session import Session
from launcher.trainers.script.inside.probe.settings import Settings


class Recorder:
    """What is said of a trial, kept."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.observed: dict[str, Any] = {}

    def fact(self, **facts: Any) -> None:
        self.facts |= facts

    def observe(self, **wheels: Any) -> None:
        self.observed |= wheels

    def optimizer_step(self) -> None: ...


class Optimizer:
    param_groups = ()


def trained(told: int, steps: list[tuple[int, int]], *, end_at: int = 0, closure: bool = False) -> Recorder:
    """A session in which each step came after so many (batches, backward passes); number ``end_at`` ended a pass over the data."""
    orders = Orders(module="", folder="", device="cpu", cap_bytes=1, accumulation=told, payload={"accumulation": told})
    session = Session(Settings(records="", orders=dataclasses.asdict(orders)))
    recorder, optimizer = Recorder(), Optimizer()
    session.recorder, session.phase = recorder, Phase.TRAIN  # type: ignore[assignment]
    session._train_began = time.monotonic()
    session.progress.made(optimizer)
    for number, (session.drawn, session.backwards) in enumerate(steps, start=1):
        session.at_the_end = number == end_at
        session.stepped(optimizer, closure=closure)
    return recorder


@pytest.mark.parametrize(
    ("told", "steps", "observed", "own"),
    [
        (4, [(4, 4), (4, 4), (4, 4)], 4, 1),
        (4, [(1, 1), (1, 1), (1, 1)], 1, None),  # the flag does nothing
        (1, [(2, 2), (2, 2), (2, 2)], 1, 2),  # the script accumulates two by itself
        (1, [(1, 2), (1, 2), (1, 2)], 1, 1),  # two losses
        (1, [(2, 1), (2, 1), (2, 1)], 1, 1),  # two loaders
        (1, [(9, 1), (1, 1), (1, 1)], 1, 1),  # batches that were looked at first
    ],
)
def test_micro_batches_of_a_step_are_counted(told: int, steps: list[tuple[int, int]], observed: int, own: int | None) -> None:
    recorder = trained(told, steps)
    assert recorder.observed["accumulation"] == observed and recorder.facts.get("own_accumulation") == own


def test_a_pass_that_ends_within_a_step_says_nothing() -> None:
    assert "accumulation" not in trained(4, [(3, 3), (3, 3)], end_at=2).observed
    assert trained(4, [(4, 4), (4, 4), (1, 1), (4, 4)], end_at=3).observed["accumulation"] == 4


def test_what_a_closure_computes_is_no_accumulation() -> None:
    assert "accumulation" not in trained(1, [(20, 20), (20, 20)], closure=True).observed
