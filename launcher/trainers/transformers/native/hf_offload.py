"""An optimizer whose states lie in the host's memory between its steps, for a training on one card. Needs torch alone.

Gradients and weights stay on the card. At a step a piece of the states comes to it, torch's own optimizer steps the numbers that it
belongs to, and it goes back to page-locked memory; then the next piece comes. So settings, schedules, clipping and a gradient scaler are
the optimizer's own, and what is saved is what it saves without this: either can load the other's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

PIECE = 2**23
"""Numbers that are stepped at once: AdamW's states of so many weights are 64 MiB."""
BY_NUMBER = ("AdamW", "SGD", "RMSprop")
"""Optimizers that treat each number by itself: a large tensor is stepped in pieces."""
BY_TENSOR = ("Adafactor",)
"""Those that treat each tensor by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """Some numbers of one weight, or all of them."""

    group: int
    weight: Any
    begin: int
    end: int
    flat: bool

    @property
    def last(self) -> bool:
        return bool(self.end == self.weight.numel())

    def of(self, tensor: Any) -> Any:
        return tensor.detach().view(-1)[self.begin : self.end] if self.flat else tensor.detach()

    def on_device(self, value: Any) -> Any:
        """A part of a state; what doesn't grow with a weight (a count of steps) as a copy, since each piece counts."""
        if not isinstance(value, torch.Tensor):
            return value
        return self.of(value).to(self.weight.device, non_blocking=True) if value.ndim else value.clone()

    def keep(self, state: Mapping[str, Any], kept: dict[str, Any]) -> None:
        """Puts a state that has been stepped where the whole weight's is."""
        for name, value in state.items():
            if not _is_large(value):
                if self.last or name not in kept:
                    kept[name] = value
                continue
            if name not in kept:
                kept[name] = _in_host(self.weight, self.weight.shape if self.flat else value.shape, value.dtype)
            self.of(kept[name]).copy_(value, non_blocking=True)


def _is_large(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim > 0


def _in_host(weight: Any, shape: Any, dtype: Any) -> Any:
    """Laid out as its weight, as torch's own are: fused steps go through memory as it lies. PyTorch rounds a page-locked block up to a
    power of two."""
    like = weight if shape == weight.shape else torch.empty(shape, device="meta")
    return torch.empty_like(like, dtype=dtype, device="cpu", pin_memory=weight.is_cuda)


def _parts(weights: Sequence[Sequence[Any]], *, whole: bool) -> Iterator[list[_Piece]]:
    """What is stepped at once, of all weights that have gradients. ``weights``: of each group."""
    part, numbers = list[_Piece](), 0
    for group, weight in ((group, one) for group, ones in enumerate(weights) for one in ones if one.grad is not None):
        flat = not whole and weight.ndim > 0 and weight.is_contiguous() and weight.grad.is_contiguous()
        for begin in range(0, weight.numel(), PIECE if flat else max(weight.numel(), 1)):
            end = min(begin + PIECE, weight.numel()) if flat else weight.numel()
            if part and numbers + end - begin > PIECE:
                yield part
                part, numbers = [], 0
            part.append(_Piece(group=group, weight=weight, begin=begin, end=end, flat=flat))
            numbers += end - begin
    if part:
        yield part


def offloaded(kind: Any) -> Any:
    """``kind``, a class of optimizers of ``BY_NUMBER`` or ``BY_TENSOR``, with its states in the host's memory."""
    plain = kind.step.__wrapped__ if getattr(kind.step, "hooked", False) else kind.step  # hooks are for whole steps

    class Offloaded(kind):  # type: ignore[misc]
        plain_kind = kind
        state: Any

        def step(self, closure: Callable[[], Any] | None = None) -> Any:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            states, weights = self.state, [group["params"] for group in self.param_groups]
            stepped_before = {weight for weight, state in states.items() if state}
            try:
                for part in _parts(weights, whole=kind.__name__ in BY_TENSOR):
                    self._step(part, states, stepped_before)
            finally:
                self.state = states
                for group, its_own in zip(self.param_groups, weights, strict=True):
                    group["params"] = its_own
            if any(weight.is_cuda for weight in states):
                torch.cuda.synchronize()  # what the host reads next has arrived
            return loss

        def _step(self, part: Sequence[_Piece], states: Any, stepped_before: set[Any]) -> None:
            self.state = defaultdict(dict)
            for number, group in enumerate(self.param_groups):
                group["params"] = [one.of(one.weight) for one in part if one.group == number]
            tensors = [tensor for group in self.param_groups for tensor in group["params"]]
            for one, tensor in zip(part, tensors, strict=True):
                tensor.grad = one.of(one.weight.grad)
                if one.weight in stepped_before:
                    self.state[tensor].update({name: one.on_device(value) for name, value in states[one.weight].items()})
            plain(self)
            for one, tensor in zip(part, tensors, strict=True):
                if state := self.state.get(tensor):
                    one.keep(state, states[one.weight])

        def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
            """torch's own would put all states on the card. Counts and settings are loaded by it."""
            saved = state_dict["state"]
            small = {number: {name: value for name, value in state.items() if not _is_large(value)} for number, state in saved.items()}
            super().load_state_dict({**state_dict, "state": small})
            numbers = (number for group in state_dict["param_groups"] for number in group["params"])
            weights = [weight for group in self.param_groups for weight in group["params"]]
            for number, weight in zip(numbers, weights, strict=True):
                for name, value in saved.get(number, {}).items():
                    if _is_large(value):
                        dtype = weight.dtype if weight.is_floating_point() else value.dtype
                        self.state[weight][name] = _in_host(weight, value.shape, dtype).copy_(value)

    Offloaded.__name__ = Offloaded.__qualname__ = kind.__name__
    return Offloaded
