"""Sees how weights and optimizer states lie among the ranks of a training. Asks tensors, not arguments: accelerate leaves all of them
whole, without a word, where it doesn't shard (a CPU).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launcher.shared.sizes import format_size
from launcher.trainers.transformers.inside.guard import NotCovered
from launcher.trainers.transformers.inside.levers import states_of
from launcher.trainers.transformers.sharding import FSDP2, NONE, OFFLOAD, RESHARD

PARTLY = "in part"
"""No value of the wheel: some weights or optimizer states are whole on every rank."""


class Sharding:
    """Of one rank. ``device``: what it trains on."""

    def __init__(self, ranks: int, device: str) -> None:
        self._ranks, self._device = ranks, device
        self._whole_after_forward = False
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
        parts = [self._is_part(one) for one in (*weights, *states)]
        if not any(parts):
            return NONE
        if not all(parts):
            return PARTLY
        if self._device != "cpu" and all(one.to_local().device.type == "cpu" for one in weights):
            return OFFLOAD
        return FSDP2 if self._whole_after_forward else RESHARD

    def told(self, model: Any, optimizer: Any) -> str:
        """For people, how much of what is sharded this rank holds."""
        tensors = (list(model.parameters()), states_of(optimizer))
        held = [f"{format_size(_bytes(one, local=True))} of {format_size(_bytes(one))}" for one in tensors]
        return f"sharded over {self._ranks} ranks: this one holds {held[0]} of weights, {held[1]} of optimizer states"


def _bytes(tensors: Iterable[Any], *, local: bool = False) -> int:
    return sum(one.numel() * one.element_size() for one in (tensor.to_local() if local else tensor for tensor in tensors))
