"""In which order a trial takes the data of a script: the largest need must come, however short the training is."""

from __future__ import annotations

import dataclasses
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autofit_launcher.common.orders import Orders, ProbeSettings
from autofit_launcher.common.report import Phase
from autofit_launcher.inside import loader_look, worst
from autofit_launcher.inside.instrument import Instrument

LONGEST = list(range(4))


def _held(batches: list[list[int]], accumulation: int) -> bool:
    """Whether the longest comes twice in a row in the second step, the second time while gradients are there (with one micro-batch a step
    they come as it ends)."""
    places = range(accumulation + (accumulation > 1), 2 * accumulation)
    return any(batches[at - 1] == batches[at] == LONGEST for at in places)


def test_the_longest_comes_in_the_second_step_with_everything_held_whatever_the_script_accumulates() -> None:
    """The script may accumulate without a word of it, so the order can't depend on the number. Twice in a row: the outputs of the batch
    before are alive until a loop gives their names anew."""
    varied = worst._varied(range(400), 4, 96)
    batches = worst._with_all_held(varied)
    assert all(_held(batches, accumulation) for accumulation in range(1, 40))
    assert batches[0] == batches[1] == LONGEST, "a training of one step"
    assert [batch for batch in batches if batch != LONGEST] == [batch for batch in varied if batch != LONGEST], "nothing is left out"


class Sized(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(1 + index % 23)


def probing() -> tuple[Instrument, list[str]]:
    """(one that trains, what it notes)"""
    records = Path("cut", "records")
    records.mkdir(parents=True, exist_ok=True)
    orders = Orders(module="", folder="", device="cpu", cap_bytes=1, accumulation=2, payload={"accumulation": 2})
    session, notes = Instrument(ProbeSettings(records=str(records), orders=dataclasses.asdict(orders))), list[str]()
    session.recorder = SimpleNamespace(note=notes.append, leave_out=lambda pid: None)  # type: ignore[assignment]
    session.phase = Phase.TRAIN
    return session, notes


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


def begun(loader: Any, **payload: Any) -> tuple[list[Any], str, Instrument]:
    """(batches of a pass of a trial, what is noted of the data, the session)"""
    session, notes = probing()
    session.orders.payload.update(payload)
    random.seed(0)
    with worst.first(loader, session, "train"):
        batches = iter(loader)
    return list(itertools.islice(batches, 16)), "; ".join(notes), session


def test_questions_with_several_answers_stay_together_and_the_longest_come_first() -> None:
    loader = torch.utils.data.DataLoader(Sized(), batch_size=16, sampler=Answers(400, 4, of=4), collate_fn=list)
    batches, note, _ = begun(loader)
    assert "400 of 400 items sampled, sizes from 1 to 23; " in note and "batches looked at" in note
    lengths = [[len(row) for row in batch] for batch in batches]
    assert all(batch[at : at + 4] == [batch[at]] * 4 for batch in lengths for at in (0, 4, 8, 12)), "rows of one question"
    assert sum(lengths[0]) > 14 * 16 and lengths[:6] == [lengths[0]] * 6, "the mean is 12"


class Lines(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """Of a file that is open already: each process that has it reads on where another was."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb", buffering=0)

    def __iter__(self) -> Iterator[torch.Tensor]:
        while line := self.file.readline():
            yield torch.zeros(len(line))


def padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


def test_a_stream_is_looked_at_and_stays_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{'x' * (500 if number == 630 else number % 7)}\n" for number in range(640)))
    stream = Lines(path)
    loader = torch.utils.data.DataLoader(stream, batch_size=4, collate_fn=padded)
    batches, note, _ = begun(loader)
    assert " batches looked at (all of a pass), from " in note and "to 2,004 elements" in note
    assert [batch.shape[1] for batch in batches[:3]] == [501] * 3 and batches[6].shape[1] < 10
    assert stream.file.tell() == sum(len(line) for line in path.read_text().splitlines(keepends=True)[:64])
    before = random.getstate()
    random.seed(0)
    assert before == random.getstate()


class Pictures(torch.utils.data.Dataset):  # type: ignore[type-arg]
    side = 8

    def __len__(self) -> int:
        return 640

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(3, self.side, self.side)


class Poisson(torch.utils.data.Sampler):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 40

    def __iter__(self) -> Iterator[list[int]]:
        return ((torch.rand(640) < 16 / 640).nonzero().flatten().tolist() for _ in range(40))


def scaled(items: Sequence[torch.Tensor]) -> torch.Tensor:
    side = 32 if random.random() < 1 / 64 else items[0].shape[-1]
    return torch.nn.functional.interpolate(torch.stack(list(items)), size=(side, side))


def test_a_rare_scale_that_a_collate_function_draws_is_the_trials() -> None:
    data = Pictures()
    loader = torch.utils.data.DataLoader(data, batch_size=4, collate_fn=scaled, num_workers=2)
    batches, note, session = begun(loader)
    assert "sizes from 192 to 192; " in note and "from 768 to 12,288 elements" in note
    assert [batch.shape[-1] for batch in (*batches[:6], *batches[8:10])] == [32] * 8
    assert 8 in {batch.shape[-1] for batch in batches}, "as drawn"
    data.side = 48  # what becomes larger later isn't given away for what was the largest
    with worst.first(loader, session, "train"):
        assert next(iter(loader)).shape[-1] == 48


def test_a_batch_of_drawn_size_is_the_asked_one() -> None:
    loader = torch.utils.data.DataLoader(Pictures(), batch_sampler=Poisson())
    batches, note, session = begun(loader, micro_batch=16)
    assert len(batches[0]) == len(batches[1]) > 24 and f"to {len(batches[0]) * 192:,} elements" in note
    assert worst.batch_size(loader, batches[0], session) == 16
    session.orders.payload.update(micro_batch=512)
    assert worst.batch_size(loader, batches[0], session) == len(batches[0]), "it was read wrong"


def test_a_loader_that_breaks_or_hangs_in_the_look_is_taken_as_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_look, "SECONDS", 0.3)
    monkeypatch.setattr(loader_look, "AT_LEAST_S", 0.1)
    breaks = torch.utils.data.DataLoader(Pictures(), batch_size=4, collate_fn=lambda items: [][1])
    with pytest.raises(IndexError):
        begun(breaks)
    session, notes = probing()
    hangs = torch.utils.data.DataLoader(Pictures(), batch_size=4, collate_fn=lambda items: time.sleep(600))
    for loader in (breaks, hangs):
        with worst.first(loader, session, "train"):
            pass
    assert "no batch of it could be looked at (IndexError: list index out of range)" in notes[0]
    assert "640 of 640 items sampled, sizes from 192 to 192; no batch of it could be looked at" in notes[1]


def test_a_librarys_collate_function_draws_no_sizes_and_what_it_wraps_may() -> None:
    """transformers' Trainer wraps a person's in one that drops columns."""
    transformers = pytest.importorskip("transformers")
    from transformers.trainer_utils import RemoveColumnsCollator

    padding, wrapped = (
        RemoveColumnsCollator(one, []) for one in (transformers.DataCollatorWithPadding(tokenizer=None), padded)
    )  # fmt: skip
    data: Any = torch.utils.data.TensorDataset(torch.zeros(8, 3))
    known = [loader_look._plain(torch.utils.data.DataLoader(data, collate_fn=one)) for one in (None, padding, wrapped, padded)]
    assert known == [True, True, False, False]
