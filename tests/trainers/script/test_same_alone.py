"""Steps of an optimizer, made for one tensor after the other: what they do is what the whole steps do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from launcher.trainers.script.inside.same import alone
from launcher.trainers.script.inside.same.updates import _values


def kinds() -> list[Callable[[Any], Any]]:
    from torch import optim

    return [
        lambda groups: optim.AdamW(groups, lr=0.1, fused=True),
        lambda groups: optim.AdamW(groups, lr=0.1, weight_decay=0.5, foreach=True),
        lambda groups: optim.SGD(groups, lr=0.1, momentum=0.9),
        lambda groups: optim.Adafactor(groups, lr=0.1),
    ]


@pytest.mark.parametrize("kind", range(4))
def test_it_does_what_the_whole_step_does_and_leaves_weights_states_and_groups_as_they_were(kind: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3, bias=False))
    model(torch.randn(4, 5)).pow(2).sum().backward()
    model[0].bias.grad = None  # one that takes no part
    weights = dict(model.named_parameters())
    optimizer = kinds()[kind](
        [{"params": [weights["0.weight"], weights["0.bias"]]}, {"params": [weights["1.weight"]], "weight_decay": 0.0}]
    )
    before, groups = {name: one.detach().clone() for name, one in weights.items()}, optimizer.param_groups
    found = alone.second_update(optimizer, [model], _values)
    assert found.keys() == {"0.weight", "1.weight"} and not optimizer.state and optimizer.param_groups is groups
    assert all(torch.equal(one, before[name]) for name, one in weights.items())
    optimizer.step()
    once = {name: one.detach().clone() for name, one in weights.items()}
    optimizer.step()
    for name, (gradient, change) in found.items():
        assert torch.equal(gradient, weights[name].grad.reshape(-1))
        assert torch.allclose(change, (weights[name] - once[name]).detach().reshape(-1), atol=1e-6) and change.abs().sum() > 0


def test_at_the_start_of_a_warm_up_it_is_made_at_the_rate_that_the_schedule_began_from() -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    weight.grad = torch.ones(4)
    assert optimizer.param_groups[0]["lr"] == 0
    ((_, change),) = alone.second_update(optimizer, [], _values).values()
    assert torch.equal(change, -0.5 * torch.ones(4)) and optimizer.param_groups[0]["lr"] == 0
