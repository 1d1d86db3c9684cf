"""The states that random numbers of the host are drawn from: Python's, torch's, and NumPy's where it is loaded."""

from __future__ import annotations

import random
import sys
from typing import Any

States = tuple[Any, Any, Any]


def states() -> States:
    import torch

    numpy = sys.modules.get("numpy")
    return random.getstate(), torch.get_rng_state(), numpy.random.get_state() if numpy is not None else None


def back_to(kept: States) -> None:
    import torch

    python, of_torch, of_numpy = kept
    random.setstate(python)
    torch.set_rng_state(of_torch)
    if of_numpy is not None:
        sys.modules["numpy"].random.set_state(of_numpy)
