"""Keeps a look off the card: what the script asks for there stays in the processor's memory.

The look ends before anything is computed. The script still sees its cards, because their number may be part of its batch size. What takes
memory there by itself (a tensor, a pinned batch, the context of a chosen device) isn't done.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

CARD = "cuda"


def keep(torch: Any) -> None:
    """From here on, in this process. ``torch`` has just been imported."""
    from torch.overrides import TorchFunctionMode

    class OffTheCard(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return _elsewhere(torch, func, args, kwargs or {})

    OffTheCard().__enter__()
    torch.load = _loaded(torch.load)
    for name in ("set_device", "synchronize"):
        setattr(torch.cuda, name, lambda *args, **kwargs: None)


def _elsewhere(torch: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = getattr(func, "__name__", "")
    if name == CARD:  # Tensor.cuda
        return args[0].cpu()
    if name == "pin_memory":
        return args[0]
    if func is torch.device:  # the script may ask what kind it is
        return func(*args, **kwargs)

    def off(value: Any) -> Any:
        by_number = name == "to" and isinstance(value, int) and not isinstance(value, bool)
        on_card = isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == CARD
        return "cpu" if by_number or on_card else value

    return func(*map(off, args), **{key: off(value) if key == "device" else value for key, value in kwargs.items()})


def _loaded(load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def loaded(*args: Any, **kwargs: Any) -> Any:
        return load(*args[:1], **{**kwargs, "map_location": "cpu"}) if args else load(**{**kwargs, "map_location": "cpu"})

    return loaded
