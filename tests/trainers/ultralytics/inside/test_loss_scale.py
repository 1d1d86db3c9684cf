"""In fp16 a scaler skips steps whose gradients overflow; a trial's few steps are taken, so that the optimizer's states are there."""

from __future__ import annotations

import pytest
import torch

from autofit_launcher.trainers.ultralytics.inside.steers import skip_nothing

LARGE = 1e4
"""A gradient that overflows fp16 once it is scaled by 65536, and not before; its square does at any scale above 6e-4."""


def stepped(scaler: torch.amp.GradScaler, power: int, *, in_trial: bool) -> tuple[bool, torch.optim.Optimizer]:
    """(whether it was skipped, the optimizer) after one step of a weight in fp16 with a gradient of ``LARGE ** power``."""
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    if in_trial:
        skip_nothing(scaler, [weight, torch.ones(2)])
    before = scaler.get_scale()
    scaler.scale(((weight.half() * LARGE).float() * LARGE ** (power - 1)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert bool(weight.isfinite().all())
    return scaler.get_scale() < before, optimizer


@pytest.mark.parametrize("power", [1, 2])
def test_a_first_step_is_skipped_and_leaves_no_states_but_in_a_trial(power: int) -> None:
    skipped, optimizer = stepped(torch.amp.GradScaler("cpu"), power, in_trial=False)
    assert skipped and not optimizer.state
    skipped, optimizer = stepped(torch.amp.GradScaler("cpu"), power, in_trial=True)
    assert not skipped and optimizer.state
