"""Sees which levers a training really has: its optimizer by class and states, its precision in a layer, frozen layers and parts of the loss
by their tensors and calls. Asks nothing of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from launcher.worker.memory_parts import bytes_of


def optimizer_seen(optimizer: Any, name: str, kind: Any) -> str:
    """``name``, where the optimizer that has stepped is of the class that the name means and keeps states as small as it says; else what it
    is."""
    inner = innermost(optimizer)
    states, found = states_of(inner), type(inner).__name__
    if getattr(type(inner), "plain_kind", type(inner)) is not kind:
        return found
    most = {"8bit": 1.5, "4bit": 1.0}.get(name.removeprefix("paged_").rpartition("_")[2])
    large = [one for one in states if one.numel() >= 2**16]  # small ones stay in single precision
    if most is None or not large or sum(map(bytes_of, large)) <= most * sum(one.numel() for one in large):
        return name
    return f"{found} with states of single precision"


def optimizer_told(optimizer: Any) -> tuple[str, float]:
    """(for people what it keeps, bytes of states for each trained weight)."""
    inner = innermost(optimizer)
    weights = [one for group in inner.param_groups for one in group["params"]] or list(inner.state)  # ZeRO 3 lends them for a step
    states, many = states_of(inner), sum(one.numel() for one in weights)
    each = sum(map(bytes_of, states)) / max(many, 1)
    gradients = _dtypes(one.grad for one in weights if one.grad is not None)
    said = f"{type(inner).__name__} keeps {each:.2f} bytes of states for each of {many:,} trained weights"
    where = " in the host's memory" if offload_seen(optimizer) == "optimizer" else ""
    return f"{said} (states {_dtypes(states) or 'none'}{where}, weights {_dtypes(weights)}, gradients {gradients or 'none'})", each


def offload_seen(optimizer: Any) -> str:
    """The wheel's value that was really run, between two steps: where an optimizer's states lie, and its weights."""
    inner = innermost(optimizer)
    away = {one.device.type == "cpu" for one in states_of(inner)} or {hasattr(type(inner), "plain_kind")}  # of sgd there are none
    on_host = all(one.device.type == "cpu" for group in inner.param_groups for one in group["params"])
    if away == {True} and not on_host:
        return "optimizer"
    return "none" if on_host or away == {False} else "in part"


def innermost(optimizer: Any) -> Any:
    """torch's own: accelerate's is around it, and DeepSpeed's."""
    while (inner := getattr(optimizer, "optimizer", None)) is not None:
        optimizer = inner
    return optimizer


def states_of(optimizer: Any) -> list[Any]:
    """An optimizer's tensors that grow with its weights; a count of steps doesn't."""
    return [value for state in optimizer.state.values() for value in state.values() if getattr(value, "ndim", 0)]


def _dtypes(tensors: Any) -> str:
    """A subclass that keeps less than its dtype says is named."""
    plain = {"Tensor", "Parameter"}
    kinds = {str(one.dtype).removeprefix("torch.") if type(one).__name__ in plain else type(one).__name__ for one in tensors}
    return ", ".join(sorted(kinds))


def watch_precision(model: Any, device: str, tell: Callable[[str], None]) -> None:
    """Tells, at the first call of a layer with a matrix, in which precision it computes: autocast's, or fp32 without it."""
    import torch

    def called(layer: Any, *_: Any) -> None:
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        tell({torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype, "fp32"))
        hook.remove()

    layers = (one for one in model.modules() if getattr(getattr(one, "weight", None), "ndim", 0) > 1)
    layer = next((one for one in layers if not isinstance(one, torch.nn.Embedding)), None)
    if layer is not None:
        hook = layer.register_forward_pre_hook(called)


def calls_of(layer: Any) -> list[None]:
    """Gets an entry for each call of ``layer`` from now on."""
    calls = list[None]()
    if layer is not None:
        layer.register_forward_hook(lambda *_: calls.append(None))
    return calls


def frozen(model: Any) -> int:
    """First layers of which nothing is trained."""
    layers = getattr(model.get_decoder(), "layers", ()) if hasattr(model, "get_decoder") else ()
    return len(list(takewhile(lambda layer: not any(one.requires_grad for one in layer.parameters()), layers)))
