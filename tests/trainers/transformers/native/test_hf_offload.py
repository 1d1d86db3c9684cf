"""States of an optimizer that lie in the host's memory: the same steps, and the same checkpoints, as torch's own optimizer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from transformers.optimization import Adafactor

from launcher.trainers.transformers.native import hf_offload

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.1}),
    "adamw, one tensor at a time": (torch.optim.AdamW, {"foreach": False}),
    "adamw, all at once": (torch.optim.AdamW, {"foreach": True, "amsgrad": True}),
    "adamw fused": (torch.optim.AdamW, {"fused": True}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "sgd without states": (torch.optim.SGD, {}),
    "rmsprop": (torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
    "adafactor": (Adafactor, {"relative_step": False, "scale_parameter": True}),
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_offload, "PIECE", 96)


def weights() -> list[torch.nn.Parameter]:
    """Larger than a piece, smaller, across a piece's border, with another layout, a single number, and one without a gradient."""
    torch.manual_seed(0)
    shapes = [(30, 11), (7,), (96,), (97,), (2, 3, 4, 5), (), (3,)]
    found = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    found[4].data = found[4].data.to(memory_format=torch.channels_last)
    return found


def trained(kind: Any, settings: dict[str, Any], steps: int, *, begins: Callable[[Any, list[Any]], None] | None = None) -> Any:
    """(weights, optimizer) after so many steps, with two groups, a schedule and clipped gradients."""
    tensors = weights()
    groups = [{"params": tensors[:3]}, {"params": tensors[3:], "lr": 0.02}]
    optimizer = kind(groups, lr=0.05, **settings)
    if begins is not None:
        begins(optimizer, tensors)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    for step in range(steps):
        torch.manual_seed(step)
        for one in tensors[:-1]:
            one.grad = torch.randn_like(one)
        torch.nn.utils.clip_grad_norm_(tensors, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return tensors, optimizer


def same(one: Any, other: Any) -> None:
    """Every tensor of two nested values, to the bit."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, torch.Tensor):
        assert one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("case", KINDS)
def test_it_steps_as_torch_s_own_to_the_bit_and_saves_the_same(case: str) -> None:
    kind, settings = KINDS[case]
    (asked, plain), (got, optimizer) = trained(kind, settings, 4), trained(hf_offload.offloaded(kind), settings, 4)
    same([one.data for one in asked], [one.data for one in got])
    same(plain.state_dict(), optimizer.state_dict())


@pytest.mark.parametrize("back", [False, True], ids=["from torch's own", "to torch's own"])
@pytest.mark.parametrize("case", KINDS)
def test_a_checkpoint_goes_on_with_and_without_it(case: str, back: bool) -> None:
    kind, settings = KINDS[case]
    ours = hf_offload.offloaded(kind)

    def through(first: Any, then: Any) -> Any:
        saved_weights, saved = trained(first, settings, 3)
        state = copy.deepcopy(saved.state_dict())

        def go_on(optimizer: Any, tensors: list[Any]) -> None:
            optimizer.load_state_dict(state)
            for one, its_own in zip(tensors, saved_weights, strict=True):
                one.data.copy_(its_own.data)

        return trained(then, settings, 2, begins=go_on)

    asked, found = through(kind, kind), through(ours, kind) if back else through(kind, ours)
    same([one.data for one in asked[0]], [one.data for one in found[0]])
    same(asked[1].state_dict(), found[1].state_dict())


@pytest.mark.parametrize("fused", [False, True])
def test_a_gradient_scaler_scales_and_skips_steps_as_without_it(fused: bool) -> None:
    def scaled(kind: Any) -> Any:
        tensors = weights()
        optimizer, scaler = kind(tensors, lr=0.05, fused=fused), torch.amp.GradScaler("cpu", init_scale=8.0)
        for step in range(4):
            torch.manual_seed(step)
            loss = sum((one * torch.randn_like(one)).sum() for one in tensors[:-1])
            scaler.scale(loss).backward()
            if step == 2:
                tensors[0].grad[3] = torch.inf
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert scaler.get_scale() == 4.0, "one step was skipped"
        return [one.data for one in tensors], optimizer.state_dict()

    asked, found = scaled(torch.optim.AdamW), scaled(hf_offload.offloaded(torch.optim.AdamW))
    same(asked, found)
    assert {float(state["step"]) for state in found[1]["state"].values()} == {3.0}


def test_hooks_and_schedules_see_one_step_whatever_the_pieces() -> None:
    steps: list[str] = []
    kind = torch.optim.AdamW
    trained(kind, {}, 1)  # its own step is hooked from now on

    def begins(optimizer: Any, _: list[Any]) -> None:
        optimizer.register_step_post_hook(lambda *_: steps.append("one"))

    _, optimizer = trained(hf_offload.offloaded(kind), {}, 3, begins=begins)
    assert len(steps) == 3 and {float(state["step"]) for state in optimizer.state_dict()["state"].values()} == {3.0}


def test_what_fails_in_a_piece_leaves_the_optimizer_whole() -> None:
    tensors, optimizer = trained(hf_offload.offloaded(torch.optim.AdamW), {}, 1)
    before = optimizer.state_dict()["state"]
    tensors[0].grad = torch.randn_like(tensors[0]).to_sparse()
    with pytest.raises(RuntimeError):
        optimizer.step()
    assert optimizer.state_dict()["state"].keys() == before.keys() and optimizer.param_groups[0]["params"][0] is tensors[0]
