"""In which order a trial takes the data of a script: the largest need must come, however short the training is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from launcher.inside import worst
from launcher.inside.instrument import Instrument
from launcher.inside.settings import ProbeSettings
from launcher.shared.orders import Orders
from launcher.shared.report import Phase

LONGEST = list(range(4))


def _held(batches: list[list[int]], accumulation: int) -> bool:
    """Whether the longest comes twice in a row in the second step, the second time while gradients are there (with one micro-batch a step
    they come as it ends)."""
    places = range(accumulation + (accumulation > 1), 2 * accumulation)
    return any(batches[at - 1] == batches[at] == LONGEST for at in places)


@pytest.mark.parametrize("accumulation", range(1, 40))
def test_the_longest_comes_in_the_second_step_with_everything_held_whatever_the_script_accumulates(accumulation: int) -> None:
    """The script may accumulate without a word of it, so the order can't depend on the number. Twice in a row: the outputs of the batch
    before are alive until a loop gives their names anew."""
    batches = worst._with_all_held(worst._varied(range(400), 4, 96, few=2))
    assert _held(batches, accumulation)
    assert batches[0] == batches[1] == LONGEST, "a training of one step"


def test_nothing_is_left_out_for_the_longest() -> None:
    varied = worst._varied(range(400), 4, 48, few=2)
    batches = worst._with_all_held(varied)
    assert [batch for batch in batches if batch != LONGEST] == [batch for batch in varied if batch != LONGEST]


class Sized(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(1 + index % 23)


def probing() -> tuple[Instrument, list[str]]:
    """(one that trains, what it notes)"""
    orders = Orders(module="", folder="", device="cpu", cap_bytes=1, accumulation=2, payload={"accumulation": 2})
    session, notes = Instrument(ProbeSettings(records="", orders=dataclasses.asdict(orders))), list[str]()
    session.recorder = SimpleNamespace(note=notes.append)  # type: ignore[assignment]
    session.phase = Phase.TRAIN
    return session, notes


def test_a_loss_is_judged_only_while_batches_are_whole() -> None:
    """One of a few rows, which only the trial makes, may hold nothing to learn from: a mean over no target is no number."""
    session, _ = probing()
    heard: list[bool] = []
    session.recorder.loss = lambda *, finite: heard.append(finite)  # type: ignore[union-attr,method-assign,assignment]
    loader = torch.utils.data.DataLoader(Sized(), batch_size=8)
    with worst.first(loader, session, "train"):
        sizes = [len(batch) for batch in loader.batch_sampler][:20]
    whole = next(at for at, size in enumerate(sizes) if size < 8)
    assert whole == 10 and sizes[9] == 8
    for number in range(whole + 3):
        session.loss(torch.tensor(float("nan") if number >= whole else 1.0))
        session.backwards += 1
    assert heard == [True] * whole


class Answers(torch.utils.data.Sampler):  # type: ignore[type-arg]
    """As GRPO's: each question for ``answers`` rows, and so many questions twice."""

    def __init__(self, questions: int, answers: int, of: int) -> None:
        self._questions, self._answers, self._of = questions, answers, of

    def __len__(self) -> int:
        return 2 * self._answers * self._questions

    def __iter__(self) -> Iterator[int]:
        drawn = torch.randperm(self._questions).tolist()
        for first in range(0, self._questions, self._of):
            for _ in range(2):
                yield from (index for index in drawn[first : first + self._of] for _ in range(self._answers))


def test_questions_with_several_answers_are_the_longest_and_stay_together() -> None:
    loader = torch.utils.data.DataLoader(Sized(), batch_size=16, sampler=Answers(400, 4, of=4))
    session, notes = probing()
    with worst.first(loader, session, "train"):
        batches = [tuple(batch) for batch in loader.batch_sampler]
    assert any("longest first" in note for note in notes)
    assert len(batches) == len(loader)
    assert all(batch[at : at + 4] == (batch[at],) * 4 for batch in batches for at in (0, 4, 8, 12)), "rows of one question"
    assert batches[0::2] == batches[1::2], "both times the same"
    assert [sum(index % 23 == 22 for index in batch) for batch in batches[:8]] == [16, 16, 16, 16, 0, 0, 16, 16]


def test_items_that_are_taken_more_than_once_otherwise_stay_as_they_are_drawn() -> None:
    again = torch.utils.data.RandomSampler(range(400), replacement=True, num_samples=1600)
    loader = torch.utils.data.DataLoader(Sized(), batch_size=16, sampler=again)
    session, notes = probing()
    sampler = loader.batch_sampler
    with worst.first(loader, session, "train"):
        assert loader.batch_sampler is sampler
    assert any("belong together" in note for note in notes)
