"""In which order a trial takes the data of a script: the largest need must come, however short the training is."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from launcher.shared.orders import Orders
from launcher.shared.report import Phase
from launcher.trainers.script.inside.probe import worst
from launcher.trainers.script.inside.probe.session import Session
from launcher.trainers.script.inside.probe.settings import Settings

LONGEST = list(range(4))


@pytest.mark.parametrize("accumulation", [1, 2, 4, 16])
def test_the_longest_batch_ends_the_second_step_where_gradients_and_optimizer_states_are_held(accumulation: int) -> None:
    varied = worst._varied(range(400), 4, max(4 * accumulation, 16), few=2)
    batches = worst._with_all_held(varied, accumulation)
    assert batches[0] == LONGEST and batches[2 * accumulation - 1] == LONGEST
    assert [batch for at, batch in enumerate(batches) if at != 2 * accumulation - 1] == varied, "nothing else is moved"


class Sized(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(1 + index % 23)


def test_a_loss_is_judged_only_while_batches_are_whole() -> None:
    """One of a few rows, which only the trial makes, may hold nothing to learn from: a mean over no target is no number."""
    orders = Orders(module="", folder="", device="cpu", cap_bytes=1, accumulation=2, payload={"accumulation": 2})
    session = Session(Settings(records="", orders=dataclasses.asdict(orders)))
    heard: list[bool] = []
    session.recorder = SimpleNamespace(loss=lambda *, finite: heard.append(finite), note=lambda _: None)  # type: ignore[assignment]
    session.phase = Phase.TRAIN
    loader = torch.utils.data.DataLoader(Sized(), batch_size=8)
    with worst.first(loader, session, "train"):
        sizes = [len(batch) for batch in loader.batch_sampler][:20]
    whole = next(at for at, size in enumerate(sizes) if size < 8)
    assert whole == 4 and sizes[3] == 8, "the second step, with the longest at its end"
    for number in range(whole + 3):
        session.loss(torch.tensor(float("nan") if number >= whole else 1.0))
        session._backwards_in_all += 1
    assert heard == [True] * whole
