"""In fp16 a scaler skips steps whose gradients overflow; a trial's few steps are taken, so that the optimizer's states are there."""

from __future__ import annotations

import pytest
import torch

from launcher.worker import loss_scale

LARGE = 1e4
"""A gradient that overflows fp16 once it is scaled by 65536, and not before; its square does at a scale of 1."""


def stepped(scaler: torch.amp.GradScaler) -> tuple[bool, torch.optim.Optimizer]:
    """(whether it was skipped, the optimizer) after one step of a weight in fp16."""
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    before = loss_scale.scale_of(scaler)
    scaler.scale(((weight.half() * LARGE).float() * LARGE).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss_scale.skips(scaler, before), optimizer


def test_a_first_step_is_skipped_and_leaves_no_states_unless_the_scale_is_small() -> None:
    skipped, optimizer = stepped(torch.amp.GradScaler("cpu"))
    assert skipped and not optimizer.state
    scaler = torch.amp.GradScaler("cpu")
    loss_scale.make_small(scaler)
    skipped, optimizer = stepped(scaler)
    assert not skipped and optimizer.state


@pytest.mark.parametrize("scaler", [None, torch.amp.GradScaler("cpu", enabled=False)])
def test_a_training_without_a_scale_is_left_alone(scaler: torch.amp.GradScaler | None) -> None:
    loss_scale.make_small(scaler)
    assert loss_scale.scale_of(scaler) == 1.0 and not loss_scale.skips(scaler, 1.0)
