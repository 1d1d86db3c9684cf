"""Micro-batches count by their targets, however a script averages over them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from autofit_launcher.trainers.script.native.update import Update

Loss = Callable[..., torch.Tensor]


def in_chunks(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """As LitGPT has it."""
    every = [nn.functional.cross_entropy(*chunk, reduction="none") for chunk in zip(logits.split(3), targets.split(3), strict=True)]
    return torch.cat(every).sum() / (targets != -100).sum().clamp(min=1)


def added_up(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    every = [nn.functional.cross_entropy(*chunk, reduction="sum") for chunk in zip(logits.split(3), targets.split(3), strict=True)]
    return torch.stack(every).sum() / (targets != -100).sum().clamp(min=1)


def of_classes(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    weights = torch.arange(1.0, 6.0)
    of_each = nn.functional.cross_entropy(logits, targets, weight=weights, reduction="none")
    return of_each.sum() / weights[targets.clamp(min=0)][targets != -100].sum().clamp(min=1)


@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, in_chunks, added_up, of_classes])
def test_gradients_of_two_micro_batches_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    monkeypatch.setattr(torch.optim.Optimizer, "__init__", torch.optim.Optimizer.__init__)
    torch.manual_seed(0)
    rows, targets, model = torch.randn(16, 4), torch.randint(0, 5, (16,)), nn.Linear(4, 5)
    targets[2:9] = -100
    loss(model(rows), targets).backward()
    asked = [one.grad.clone() for one in model.parameters() if one.grad is not None]
    Update("targets", 1.0, 2).install(torch)
    optimizer = torch.optim.SGD(model.parameters())
    optimizer.zero_grad()
    for part, own in zip(rows.split(8), targets.split(8), strict=True):
        loss(model(part), own).backward()
    for wanted, parameter in zip(asked, model.parameters(), strict=True):
        assert parameter.grad is not None and torch.allclose(parameter.grad, wanted, atol=1e-6)


@pytest.mark.parametrize("last", [16, 8, 4], ids=["whole", "half of a mean", "less than a micro-batch"])
def test_a_step_that_comes_before_its_last_mean_is_whole_has_those_before(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Two means of sixteen rows are a step, each of two micro-batches; the last step of a pass has fewer rows."""
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    monkeypatch.setattr(torch.optim.Optimizer, "__init__", torch.optim.Optimizer.__init__)
    torch.manual_seed(0)
    rows, targets, model, early = torch.randn(16 + last, 4), torch.randint(0, 5, (16 + last,)), nn.Linear(4, 5), nn.Parameter(torch.ones(5))
    targets[2:9] = -100

    def backward(part: slice) -> None:
        logits = model(rows[part]) * early if part.start < 16 else model(rows[part])  # a weight without a gradient in the last mean
        nn.functional.cross_entropy(logits, targets[part]).backward()

    backward(slice(0, 16))
    backward(slice(16, 16 + last))
    weights = [*model.parameters(), early]
    asked = [one.grad for one in weights]
    Update("targets", 1.0, 2).install(torch)
    optimizer = torch.optim.SGD(weights)
    optimizer.zero_grad()
    for start in range(0, 16 + last, 8):
        backward(slice(start, min(start + 8, 16 + last)))
    for wanted, weight in zip(asked, weights, strict=True):
        assert wanted is not None and weight.grad is not None and torch.allclose(weight.grad, wanted, atol=1e-6)
