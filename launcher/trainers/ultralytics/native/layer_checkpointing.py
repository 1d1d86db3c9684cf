"""Gradient checkpointing of a YOLO model: of all layers, or of the first ones. Beside ``yolo_exact.py``; needs torch and ultralytics.

The class is patched, never an instance: closures on modules would be pickled into last.pt, which could not be loaded without this file.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint
from ultralytics.nn.tasks import BaseModel

_plain_predict_once: Callable[..., Any] = BaseModel._predict_once
_share = 1.0
"""Of what the layers keep for backward: so much is computed again."""
_depths: weakref.WeakKeyDictionary[nn.Module, dict[float, int]] = weakref.WeakKeyDictionary()
"""Model -> share -> how many of its layers are checkpointed. No attribute of the model: that would be pickled into last.pt."""


@contextlib.contextmanager
def _frozen_batch_norm(layer: nn.Module) -> Iterator[None]:
    """The recomputation in backward must not move running statistics a second time."""
    norms = [m for m in layer.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training and m.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
            if norm.num_batches_tracked is not None:
                norm.num_batches_tracked.sub_(1)


def _on_a_copy(layer: nn.Module) -> Callable[[Any], Any]:
    """The layer, which may write into a list of inputs (Detect does, before Ultralytics 8.4): the recomputation needs it as it was."""
    return lambda x: layer(list(x) if isinstance(x, list) else x)


def _has_dropout(layer: nn.Module) -> bool:
    return any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p for m in layer.modules())


def _checkpointed_predict_once(self: Any, x: Any, *options: Any, **named: Any) -> Any:
    """As ``BaseModel._predict_once``, keeping only the layers' inputs for backward while training.

    Its options (profile, embed, and visualize before 8.4) are for other uses than training.
    """
    if any(map(bool, (*options, *named.values()))) or not (self.training and torch.is_grad_enabled()):
        return _plain_predict_once(self, x, *options, **named)
    depth = _depth(self)
    outputs: list[Any] = []
    for layer in self.model:
        x = _input_of(layer, x, outputs)
        if layer.i < depth and any(True for _ in layer.parameters()):
            x = checkpoint(
                _on_a_copy(layer),
                x,
                use_reentrant=False,
                preserve_rng_state=_has_dropout(layer),
                context_fn=lambda layer=layer: (contextlib.nullcontext(), _frozen_batch_norm(layer)),
            )
        else:
            x = layer(x)
        outputs.append(x if layer.i in self.save else None)
    return x


def _input_of(layer: Any, x: Any, outputs: list[Any]) -> Any:
    """What ``layer`` takes: the output before it, or those it names."""
    if layer.f == -1:
        return x
    return outputs[layer.f] if isinstance(layer.f, int) else [x if j == -1 else outputs[j] for j in layer.f]


def _depth(model: Any) -> int:
    """How many layers are checkpointed, from the image on: the fewest that hold the share. Those are cheapest to compute again for what
    they hold."""
    if _share >= 1.0:
        return len(model.model)
    known = _depths.setdefault(model, {})
    if _share not in known:
        sums = list(itertools.accumulate(held_by_layer(model)))
        known[_share] = 1 + next(depth for depth, so_far in enumerate(sums) if so_far >= _share * sums[-1])
    return known[_share]


MEASURED_AT = 640
"""Pixels. Whatever a batch measures, its layers hold the same parts of what all hold; a rung's trial and its run must choose alike."""


def held_by_layer(model: Any) -> list[float]:
    """Bytes that each layer keeps for backward of one image, with what the layers before it keep anyway left out. Nothing is computed
    (meta tensors), and no weight and no statistic of ``model`` is touched."""
    held: list[float] = []
    outputs: list[Any] = []
    weights: dict[int, torch.Tensor] = {}
    kept: dict[int, torch.Tensor] = {}
    x: Any = torch.empty(1, next(model.parameters()).shape[1], MEASURED_AT, MEASURED_AT, device="meta")

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if (storage := _storage(tensor)) not in weights:
            kept.setdefault(storage, tensor)
        return tensor

    for layer in model.model:
        own = {name: one.detach().to("meta").requires_grad_(one.requires_grad) for name, one in _tensors(layer)}
        weights |= {_storage(one): one for one in own.values()}
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            x = torch.func.functional_call(layer, own, (_input_of(layer, x, outputs),))
        outputs.append(x if layer.i in model.save else None)
        held.append(sum(float(one.untyped_storage().nbytes()) for one in kept.values()) - sum(held))
    return held


def _storage(tensor: torch.Tensor) -> int:
    """Of a meta tensor, which has no address."""
    return int(StorageWeakRef(tensor.untyped_storage()).cdata)


def _tensors(layer: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from layer.named_parameters()
    yield from layer.named_buffers()


def enable(share: float = 1.0) -> None:
    """``share``: of what the layers keep for backward; 1 is all of them."""
    global _share
    _share = share
    BaseModel._predict_once = _checkpointed_predict_once


def disable() -> None:
    BaseModel._predict_once = _plain_predict_once


def why_not(model: nn.Module) -> str | None:
    """Why gradient checkpointing cannot be had for ``model``, or None where it can."""
    name = type(model).__name__
    if not isinstance(model, BaseModel):
        kind = (
            "knowledge distillation hooks layers, and hooks would fire twice"
            if hasattr(model, "student_model")
            else "it is no YOLO layer list"
        )
        return f"{name} cannot be checkpointed: {kind}"
    if type(model).predict is not BaseModel.predict:
        return f"{name} cannot be checkpointed: it runs its layers in a loop of its own (RT-DETR, World and YOLOE do)"
    return None
