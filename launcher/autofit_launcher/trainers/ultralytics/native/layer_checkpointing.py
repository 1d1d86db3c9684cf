"""Gradient checkpointing of a YOLO model, layer by layer. Beside ``yolo.py``; needs torch and ultralytics.

The class is patched, never an instance: closures on modules would be pickled into last.pt, which could not be loaded without this file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from ultralytics.nn.tasks import BaseModel

_plain_predict_once: Callable[..., Any] = BaseModel._predict_once


def switch(*, on: bool) -> None:
    """Switches checkpointing in this process, from the next forward pass on."""
    BaseModel._predict_once = _checkpointed_predict_once if on else _plain_predict_once


def _checkpointed_predict_once(self: Any, x: Any, *options: Any, **named: Any) -> Any:
    """Does as ``BaseModel._predict_once``, keeping only the layers' inputs for backward while training.

    Its options (profile, embed) are for other uses than training.
    """
    if any(map(bool, (*options, *named.values()))) or not (self.training and torch.is_grad_enabled()):
        return _plain_predict_once(self, x, *options, **named)
    outputs: list[Any] = []
    for layer in self.model:
        if layer.f != -1:  # it takes outputs that it names, and not the one before it
            x = outputs[layer.f] if isinstance(layer.f, int) else [x if j == -1 else outputs[j] for j in layer.f]
        if any(True for _ in layer.parameters()):
            x = checkpoint(
                _on_a_copy(layer),
                x,
                use_reentrant=False,
                context_fn=lambda layer=layer: (contextlib.nullcontext(), _frozen_batch_norm(layer)),
            )
        else:
            x = layer(x)
        outputs.append(x if layer.i in self.save else None)
    return x


def _on_a_copy(layer: nn.Module) -> Callable[[Any], Any]:
    """The layer, which may write into a list of inputs (Detect does, before Ultralytics 8.4): the recomputation needs it as it was."""
    return lambda x: layer(list(x) if isinstance(x, list) else x)


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
