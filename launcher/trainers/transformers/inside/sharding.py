"""Sees how weights and optimizer states lie among the ranks of a training. Asks tensors, not arguments: accelerate leaves all of them
whole, without a word, where it doesn't shard (a CPU).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from launcher.shared.sizes import format_size
from launcher.trainers.transformers.inside.guard import NotCovered
from launcher.trainers.transformers.inside.levers import innermost, states_of
from launcher.trainers.transformers.sharding import FSDP2, NONE, OFFLOAD, RESHARD, ZERO2, ZERO3

PARTLY = "in part"
"""No value of the wheel: some weights or optimizer states are whole on every rank."""


class Sharding:
    """Of one rank. ``device``: what it trains on."""

    def __init__(self, ranks: int, device: str) -> None:
        self._ranks, self._device = ranks, device
        self._whole_after_forward = self._gradients_left = False
        self._hooks: list[Any] = []

    def watch(self, model: Any) -> None:
        """Before the first step: looks at the first layer after its first forward. Raises NotCovered where no layer is shared by itself."""
        if not any(map(self._is_part, model.parameters())):
            return
        layers = [one for one in model.modules() if hasattr(one, "unshard") and one is not model]  # FSDPModule's own method
        stacks = [one for one in model.modules() if type(one).__name__ == "ModuleList"]
        repeated = [layer for stack in stacks for layer in stack if layer in layers]
        if not repeated:
            raise NotCovered("sharding: this model has no repeated layers that are shared by themselves, so all of it is there at once")
        self._hooks.append(repeated[0].register_forward_hook(self._after_forward))  # after fully_shard's own, which reshards

    def between(self, model: Any) -> None:
        """Two micro-batches of the same step."""
        self._gradients_left |= any(one.grad is not None for one in model.parameters())

    def _after_forward(self, layer: Any, *_: Any) -> None:
        self._whole_after_forward = not all(map(self._is_part, layer.parameters()))
        for hook in self._hooks:
            hook.remove()

    def _is_part(self, tensor: Any) -> bool:
        """Whether this rank holds a part of it alone (a DTensor)."""
        cut = any(place.is_shard() for place in getattr(tensor, "placements", ()))
        return cut and tensor.device_mesh.size() == self._ranks

    def seen(self, model: Any, optimizer: Any) -> str:
        """The wheel's value that was really run, once the optimizer has stepped."""
        weights, states = list(model.parameters()), states_of(optimizer)
        if is_zero(weights):
            return self._zero(weights, innermost(optimizer))
        parts = [self._is_part(one) for one in (*weights, *states)]
        if not any(parts):
            return NONE
        if not all(parts):
            return PARTLY
        if self._device != "cpu" and all(one.to_local().device.type == "cpu" for one in weights):
            return OFFLOAD
        return FSDP2 if self._whole_after_forward else RESHARD

    def _zero(self, weights: list[Any], optimizer: Any) -> str:
        """ZeRO pads its parts, each weight's to the number of ranks, and keeps small weights whole beside theirs."""
        trained = sum(numel(one) for one in weights if one.requires_grad)
        most = trained / self._ranks + self._ranks * (len(weights) + 8)
        flat = sum(one.numel() for group in optimizer.param_groups for one in group["params"])
        held = Counter[str]()
        for state in optimizer.state.values():
            held.update({name: value.numel() for name, value in state.items() if getattr(value, "ndim", 0)})
        if max(flat, *held.values(), 0) > most:
            return PARTLY
        if not any(hasattr(one, "ds_tensor") for one in weights):
            return ZERO2 if not self._gradients_left else PARTLY
        whole, parts = sum(one.numel() for one in weights), sum(one.ds_tensor.numel() for one in weights)
        in_all = sum(map(numel, weights))
        return ZERO3 if whole < in_all / 10 and parts <= in_all / self._ranks + self._ranks * len(weights) else PARTLY

    def told(self, model: Any, optimizer: Any) -> str:
        """For people, how much of what is sharded this rank holds."""
        weights, states = list(model.parameters()), states_of(innermost(optimizer))
        figures = [(_bytes(one, local=True), _bytes(one)) for one in ([] if is_zero(weights) else [weights, states])]
        if not figures:
            own = _bytes(states, local=True)
            figures = [(sum(map(_zero_bytes, weights)), sum(numel(one) * one.element_size() for one in weights)), (own, own * self._ranks)]
        held = [f"{format_size(own)} of {format_size(whole)}" for own, whole in figures]
        return f"sharded over {self._ranks} ranks: this one holds {held[0]} of weights, {held[1]} of optimizer states"


def is_zero(weights: Iterable[Any]) -> bool:
    """Whether DeepSpeed's ZeRO has taken these weights: at its stages 1 and 2, or 3."""
    return any(hasattr(one, "_hp_mapping") or hasattr(one, "ds_id") for one in weights)


def numel(weight: Any) -> int:
    """Of the whole weight."""
    return int(getattr(weight, "ds_numel", weight.numel()))


def _zero_bytes(weight: Any) -> int:
    part = getattr(weight, "ds_tensor", None)
    return int((weight.numel() + (part.numel() if part is not None else 0)) * weight.element_size())


def _bytes(tensors: Iterable[Any], *, local: bool = False) -> int:
    return sum(
        one.numel() * one.element_size()
        for one in (tensor.to_local() if local and hasattr(tensor, "to_local") else tensor for tensor in tensors)
    )
