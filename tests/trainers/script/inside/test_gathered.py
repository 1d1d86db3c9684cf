"""What a script gathers of each batch, and as much of it as a whole pass would bring."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from launcher.shared import procfs
from launcher.shared.sizes import MIB
from launcher.trainers.script.inside.probe.gathered import LEAST_FILLED, LOOKS, Gathered, Rest, live_bytes, steady_growth

ROWS, BATCHES, SAMPLES = 64, 40, 64 * 39 + 10
WIDTH = 4096
Scored = namedtuple("Scored", "scores labels")


class Metric:
    def __init__(self) -> None:
        self.state: dict[str, list[Any]] = {"preds": []}


def outputs() -> torch.Tensor:
    return torch.ones(ROWS, WIDTH)


def as_tensors(kept: list[Any], labels: list[Any], metric: Metric) -> None:
    kept.append(outputs())
    labels.extend([1] * ROWS)


def as_arrays(kept: list[Any], labels: list[Any], metric: Metric) -> None:
    kept.append(outputs().numpy().copy())
    labels.extend(np.ones(ROWS, dtype=np.int64))


def as_rows(kept: list[Any], labels: list[Any], metric: Metric) -> None:
    kept.extend(outputs())
    labels.extend([1] * ROWS)


def as_pairs(kept: list[Any], labels: list[Any], metric: Metric) -> None:
    kept.append(Scored(outputs(), torch.ones(ROWS)))
    labels.append({"label": [1] * ROWS})


def as_a_metric(kept: list[Any], labels: list[Any], metric: Metric) -> None:
    metric.state["preds"].append(outputs())
    labels.extend([1] * ROWS)


def gathered(batch: Callable[..., None], *, batches: int = 9) -> tuple[list[Any], list[Any], Metric, dict[str, int]]:
    """Nine batches of forty were seen; what the other 31 would add is put there."""
    kept, labels, metric, seen = list[Any](), list[Any](), Metric(), Gathered("cpu")
    for number in range(batches):
        batch(kept, labels, metric)
        seen.look()
        if number >= batches - LOOKS:
            searched = seen.searched()
    assert searched
    return kept, labels, metric, seen.fill(Rest(BATCHES - batches, ROWS, SAMPLES - (BATCHES - 1) * ROWS))


def rows_of(kept: list[Any]) -> int:
    return sum(len(one) for one in kept)


@pytest.mark.parametrize("batch", [as_tensors, as_arrays])
def test_lists_of_arrays_hold_as_many_rows_as_after_the_whole_pass(batch: Callable[..., None]) -> None:
    kept, labels, _, told = gathered(batch)
    assert len(kept) == BATCHES and rows_of(kept) == len(labels) == SAMPLES
    assert told == {"cpu": ROWS * WIDTH * 4}


def test_a_list_of_rows_is_as_long_as_the_data_set_and_rows_of_a_batch_have_their_memory_together() -> None:
    kept, labels, _, told = gathered(as_rows)
    assert len(kept) == len(labels) == SAMPLES and told == {"cpu": ROWS * WIDTH * 4}
    assert len({row.untyped_storage().data_ptr() for row in kept}) == BATCHES


def test_what_is_gathered_in_pairs_and_by_an_object_is_found() -> None:
    kept, labels, _, told = gathered(as_pairs)
    assert told == {"cpu": ROWS * WIDTH * 4 + ROWS * 4} and isinstance(kept[-1], Scored)
    assert sum(len(one.scores) for one in kept) == sum(len(one.labels) for one in kept) == SAMPLES
    assert len(kept) == BATCHES and len(labels[-1]["label"]) == SAMPLES - (BATCHES - 1) * ROWS
    _, labels, metric, _ = gathered(as_a_metric)
    assert rows_of(metric.state["preds"]) == len(labels) == SAMPLES


def test_what_is_put_there_has_memory_of_its_own() -> None:
    before = live_bytes("cpu")
    kept, *_ = gathered(as_tensors)
    assert live_bytes("cpu") - before >= rows_of(kept) * WIDTH * 4 * 0.98
    assert len({one.untyped_storage().data_ptr() for one in kept}) == BATCHES


def test_a_view_keeps_all_that_it_is_a_view_of() -> None:
    kept, *_, told = gathered(lambda kept, labels, metric: kept.append(outputs()[:, :1]))
    assert told == {"cpu": ROWS * WIDTH * 4} and kept[-2].untyped_storage().nbytes() == ROWS * WIDTH * 4
    assert kept[-2].shape == (ROWS, 1)


def losses_with_their_graph(kept: list[Any], labels: list[Any], metric: Metric) -> None:
    weight = torch.ones(ROWS, WIDTH, requires_grad=True)
    kept.append((weight * 2).pow(2))


def grows_anew(kept: list[Any], labels: list[Any], metric: Metric) -> None:
    kept[:] = [torch.cat([*kept, outputs()])]


def grows_by_more_and_more(kept: list[Any], labels: list[Any], metric: Metric) -> None:
    kept.extend(outputs() for _ in range(len(kept) + 1))


@pytest.mark.parametrize("batch", [losses_with_their_graph, grows_anew, grows_by_more_and_more])
def test_what_can_not_be_made_again_or_does_not_grow_by_the_same_is_left_as_it_is(batch: Callable[..., None]) -> None:
    kept, _, _, told = gathered(batch, batches=4)
    there = len(kept)
    assert told == {} and there <= 15


def test_little_is_not_filled() -> None:
    kept, *_, told = gathered(lambda kept, labels, metric: kept.append(torch.ones(LEAST_FILLED // 4 // BATCHES)))
    assert len(kept) == 9 and told == {}


def test_more_than_the_machine_has_is_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be killed with whatever else runs there: what it needs is counted."""
    monkeypatch.setattr(procfs, "available_bytes", lambda: 2 * 31 * ROWS * WIDTH * 4 - 1)
    kept, *_, told = gathered(as_tensors)
    assert len(kept) == 9 and told == {}


class OfTheProbe:
    __module__ = "launcher.somewhere"

    def __init__(self) -> None:
        self.in_steps: list[int] = []
        self.by_place: dict[str, list[int]] = {"step": []}


def test_lists_of_the_probe_itself_are_left_alone() -> None:
    """Some are of every batch, too."""
    own = OfTheProbe()
    vars(own)

    def batch(kept: list[Any], labels: list[Any], metric: Metric) -> None:
        kept.append(outputs())
        own.in_steps.append(1)
        own.by_place["step"].append(1)

    kept, *_ = gathered(batch)
    assert len(kept) == BATCHES and len(own.in_steps) == len(own.by_place["step"]) == 9


def test_host_memory_that_the_allocator_reuses_shows_as_growth() -> None:
    """Where it has free blocks, what a process has of the machine doesn't grow."""
    free = [torch.ones(3000) for _ in range(4000)]
    del free[::2]
    seen, kept = Gathered("cpu"), list[Any]()
    for _ in range(5):
        kept += [torch.ones(3000) for _ in range(40)]
        seen.look()
    assert 40 * 12000 <= seen.each("cpu") <= 41 * 12288


def test_only_growth_that_goes_on_counts() -> None:
    assert steady_growth([0, 50, 60, 70]) == 10
    assert steady_growth([0, 50, 60, 60]) == 0
    assert steady_growth([0, 50, 60, 400]) == 0


def test_rows_that_nobody_knows_are_whole_batches() -> None:
    kept, seen = list[Any](), Gathered("cpu")
    for _ in range(LOOKS):
        kept.append(outputs())
        seen.searched()
    assert seen.fill(Rest(20)) == {"cpu": MIB} and len(kept) == LOOKS + 20 and rows_of(kept) == (LOOKS + 20) * ROWS
