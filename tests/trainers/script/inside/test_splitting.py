"""A late out-of-memory of a script's own loop: the same training as one that found room, or none at all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from launcher.trainers.script.inside import splitting
from launcher.worker import splitting as of_worker

ROWS, WORDS, LENGTH = 8, 32, 12
FULL = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."


class Room(torch.autograd.Function):
    """Lets a value through while it has at most so many rows."""

    most, back = 1000, 1000
    """In a forward pass, and in a backward pass."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        if len(value) > Room.most:
            raise RuntimeError(FULL)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if len(gradient) > Room.back:
            raise RuntimeError(FULL)
        return gradient


class Net(nn.Module):
    """``mixes``: what it does to rows beyond a pass over each."""

    def __init__(self, mixes: Callable[[Any, Any], Any] = lambda model, rows: rows) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.middle, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, 16), nn.Linear(16, WORDS)
        self.mixes = mixes

    def forward(self, ids: Any) -> Any:
        rows = Room.apply(self.embed(ids)) if torch.is_grad_enabled() else self._predicted(self.embed(ids))
        return self.head(torch.tanh(self.middle(self.mixes(self, rows))))

    def _predicted(self, rows: Any) -> Any:
        if len(rows) > Room.most and not Room.fills:
            raise RuntimeError(FULL)
        return rows


Room.fills = True  # type: ignore[attr-defined]


class Cache:
    """Of keys and values, say: nobody knows how to put two together."""

    size = 1.0


class WithLoss(Net):
    """As models of Hugging Face, and nanoGPT's, that give their own loss."""

    def forward(self, ids: Any, labels: Any = None) -> Any:
        logits = super().forward(ids)
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits, "cache": Cache()}


@pytest.fixture(autouse=True)
def as_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(of_worker, "_others", [])
    for name in ("most", "back"):
        monkeypatch.setattr(Room, name, 1000)
    monkeypatch.setattr(Room, "fills", True)
    hook = register_optimizer_step_pre_hook(splitting._Models().step_comes)
    yield
    hook.remove()


def batches() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, WORDS, (ROWS, LENGTH), generator=generator) for _ in range(5)]


def own_loss(model: Any, ids: Any) -> Any:
    """One that compares rows with each other: parts of it would be another."""
    rows = nn.functional.normalize(model(ids).mean(1))
    return nn.functional.cross_entropy(rows @ rows.T * 5, torch.arange(len(rows)))


def trained(model: nn.Module, loss: Callable[[Any, Any], Any], *, most: int = 1000, since: int = 2) -> dict[str, Any]:
    torch.manual_seed(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for step, ids in enumerate(batches()):
        Room.most = most if step >= since else 1000
        optimizer.zero_grad()
        loss(model, ids).backward()
        optimizer.step()
    Room.most = 1000
    return {name: value.clone() for name, value in model.state_dict().items()}


def far(one: dict[str, Any], other: dict[str, Any]) -> float:
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


def summed(model: Any, ids: Any) -> Any:
    return nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


def gradient_penalty(model: Any, ids: Any) -> Any:
    """A loss of a gradient, which the loop takes by itself."""
    loss = summed(model, ids)
    (gradient,) = torch.autograd.grad(loss, [model.head.weight], create_graph=True)
    return loss + 0.1 * gradient.square().sum() + 0.01 * model.middle.weight.square().sum()


def twice(model: Any, ids: Any) -> Any:
    loss = summed(model, ids)
    loss.backward(retain_graph=True)
    return loss


LOSSES = [summed, own_loss, gradient_penalty, twice, lambda model, ids: model(ids)[:, 1:].square().mean() + model(ids.flip(0)).mean()]


@pytest.mark.parametrize("loss", LOSSES, ids=["a mean", "rows are compared", "its own gradients", "two backward passes", "called twice"])
def test_the_weights_are_those_of_a_run_that_found_room(loss: Any, capfd: pytest.CaptureFixture[str]) -> None:
    alone = trained(Net(), loss)
    assert "taken again" not in capfd.readouterr().err
    split = trained(Net(), loss, most=2)
    assert far(alone, split) < 1e-5 < far(alone, Net().state_dict())
    said = capfd.readouterr().err
    assert said.count("autofit: taken again: a training pass found no room; its 8 rows were taken again, 2 at once") == 1


def test_a_model_that_gives_its_own_loss_is_the_same_training(capfd: pytest.CaptureFixture[str]) -> None:
    alone, split = (trained(WithLoss(), lambda model, ids: model(ids, labels=ids)["loss"], most=most) for most in (1000, 3))
    assert far(alone, split) < 1e-5 and "2 at once" in capfd.readouterr().err
    with pytest.raises(MemoryError, match="there is no Cache"):
        trained(WithLoss(), lambda model, ids: (found := model(ids, labels=ids))["loss"] * found["cache"].size, most=3)


def test_what_a_loss_counts_for_is_looked_at_again_once_it_matters(capfd: pytest.CaptureFixture[str]) -> None:
    """Rows have as many labels each where parts are taken first, and later they have not."""

    def of_labels(model: Any, ids: Any) -> Any:
        labels = ids.clone()
        if not torch.equal(ids, batches()[2]):
            labels[:4, : LENGTH // 2] = -100
        return model(ids, labels=labels)["loss"]

    alone, split = (trained(WithLoss(), of_labels, most=most) for most in (1000, 3))
    assert far(alone, split) < 1e-5 and "2 at once" in capfd.readouterr().err


def batch_norm(model: Any, rows: Any) -> Any:
    return model.norm(rows.transpose(1, 2)).transpose(1, 2)


def test_statistics_of_batch_norm_are_counted_once_for_each_part() -> None:
    def with_norm() -> Net:
        model = Net(batch_norm)
        model.norm = nn.BatchNorm1d(16)
        return model

    split, steps, halved = with_norm(), iter(range(5)), with_norm()
    trained(split, summed, most=4)

    def by_halves(model: Any, ids: Any) -> Any:
        parts = ids.split(ROWS if next(steps) < 2 else 2)
        return sum(summed(model, part) for part in parts) / len(parts)

    trained(halved, by_halves)
    assert far(split.state_dict(), halved.state_dict()) < 1e-5 and int(split.norm.num_batches_tracked) == 2 + 3 * 4


def test_what_is_drawn_at_random_is_drawn_again_where_a_part_is_computed_again() -> None:
    """A part's dropout must be the same in both of its passes: the gradient is that of what the loss was computed of."""
    drawn: list[float] = []

    def drops(model: Any, rows: Any) -> Any:
        if not model.training:
            return rows
        drawn.append(random.random())
        return rows * (torch.rand_like(rows) > 0.5) * drawn[-1]

    model = Net(drops)
    trained(model, summed, most=4)
    ones = drawn[-8:]  # of the last step: four parts, and all again in the backward pass, the last first
    assert ones[:4] == ones[:3:-1] and len(set(ones)) == 4


def mean_of_rows(model: Any, rows: Any) -> Any:
    return rows - rows.mean(0, keepdim=True)


def keeps_a_loss(model: Any, rows: Any) -> Any:
    model.beside = rows.square().mean()
    return rows


@pytest.mark.parametrize(
    ("mixes", "loss", "why"),
    [
        (mean_of_rows, summed, "rows give another result than their halves"),
        (keeps_a_loss, lambda model, ids: summed(model, ids) + model.beside, "a pass changes beside of the model"),
    ],
)
def test_another_training_is_not_made_of_it(mixes: Any, loss: Any, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(Net(mixes), loss, most=4)
    assert f"a training pass found no room and can't be taken in parts: {why}" in capfd.readouterr().err.replace("8 rows", "rows")


def test_models_with_hooks_and_of_other_trainers_are_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    model = Net()
    model.middle.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(model, summed, most=4)
    of_worker.take_care("transformers")
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(Net(), summed, most=4)
    assert "autofit" not in capfd.readouterr().err


def test_a_hook_that_comes_later_is_seen_where_it_matters(capfd: pytest.CaptureFixture[str]) -> None:
    model = Net()
    trained(model, summed)
    model.middle.register_forward_hook(lambda *_: None)
    Room.most = 4
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        model(batches()[0])
    assert "its modules have hooks" in capfd.readouterr().err


def test_parts_whose_backward_pass_finds_no_room_are_made_smaller(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    alone = trained(Net(), summed)
    split = trained(Tighter(), summed, most=4)
    assert "2 at once" in capfd.readouterr().err and far(alone, split) < 1e-5


class Tighter(Net):
    """Where it is, there is less in a backward pass than in a forward pass."""

    def forward(self, ids: Any) -> Any:
        Room.back = 2 if Room.most < 1000 else 1000
        return super().forward(ids)


def test_a_batch_that_is_predicted_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    model = Net()
    trained(model, summed)
    model.eval()
    ids = batches()[0]
    with torch.no_grad():
        whole = model(ids)
        monkeypatch.setattr(Room, "fills", False)
        Room.most = 3
        assert torch.allclose(model(ids), whole, atol=1e-6)
    assert "a pass that predicts found no room; its 8 rows were taken again, 2 at once" in capfd.readouterr().err
