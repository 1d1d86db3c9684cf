"""What every batch leaves in memory."""

from __future__ import annotations

import torch

from autofit_launcher.inside.gathered import Gathered, steady_growth


def test_host_memory_that_the_allocator_reuses_shows_as_growth() -> None:
    """Where it has free blocks, what a process has of the machine doesn't grow."""
    free = [torch.ones(3000) for _ in range(4000)]
    del free[::2]
    seen, kept = Gathered("cpu"), list[torch.Tensor]()
    for _ in range(5):
        kept += [torch.ones(3000) for _ in range(40)]
        seen.look()
    assert 40 * 12000 <= seen.all()["cpu"] <= 41 * 12288


def test_only_growth_that_goes_on_counts() -> None:
    assert steady_growth([0, 50, 60, 70]) == 10
    assert steady_growth([0, 50, 60, 60]) == 0
    assert steady_growth([0, 50, 60, 400]) == 0
