"""An optimizer's steps, made for one tensor after the other: no more states than one tensor's are there at once, where all would not fit.

The first two, of one gradient: at the first, states are exact however few bits they are kept in afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def second_update(optimizer: Any, models: Sequence[Any], values: Callable[[Any], Any]) -> dict[str, tuple[Any, Any]]:
    """Name of a tensor -> its gradient and what the second step with it does, each by ``values`` (a copy of a part). Weights and states
    are as before when it returns. At a learning rate of 0 (the start of a warm-up) steps take the rate that the schedule began from."""
    names = {id(one): name for model in reversed(models) for name, one in model.named_parameters()}
    tensors = [one for group in optimizer.param_groups for one in group["params"]]
    gradients, rates = [one.grad for one in tensors], [group.get("lr") for group in optimizer.param_groups]
    try:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] if group.get("lr") == 0 and "initial_lr" in group else group.get("lr")
        for one in tensors:
            one.grad = None  # what has no gradient is left out of a step, and keeps its place in its group
        made = {
            names.get(id(one), f"{number}"): (values(gradient), _changed(optimizer, one, gradient, values))
            for number, (one, gradient) in enumerate(zip(tensors, gradients, strict=True))
            if gradient is not None
        }
    finally:
        for one, gradient in zip(tensors, gradients, strict=True):
            one.grad = gradient
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
    return made


def _changed(optimizer: Any, one: Any, gradient: Any, values: Callable[[Any], Any]) -> Any:
    before, state = one.detach().clone(), optimizer.state.pop(one, None)
    one.grad = gradient
    optimizer.step()
    first = values(one)
    optimizer.step()
    change = values(one) - first
    one.grad = None
    one.detach().copy_(before)
    optimizer.state.pop(one, None)
    if state is not None:
        optimizer.state[one] = state
    return change
