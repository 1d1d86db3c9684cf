"""DeepSpeed's ZeRO: whole weights and gradients of what each rank has a part of, by DeepSpeed's own words, and when its engine steps.

ZeRO gives its optimizer one long row in the place of all weights of a group, or a part of it, and has it step once for each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def is_part(tensor: Any) -> bool:
    """Whether ZeRO has taken this weight: at its stage 3, or at 1 and 2."""
    return hasattr(tensor, "ds_id") or hasattr(tensor, "_hp_mapping")


def weight(parameter: Any) -> Any:
    """The whole of it, for which all ranks come here."""
    from deepspeed.utils import safe_get_full_fp32_param  # type: ignore[import-not-found,unused-ignore]

    return safe_get_full_fp32_param(parameter)


def gradient(parameter: Any) -> Any:
    """The whole one that the engine's next step is made of, before clipping; for which all ranks come here."""
    from deepspeed.utils import safe_get_full_grad

    own, parameter.grad = parameter.grad, None  # at stage 1 this rank's, before they are exchanged
    try:
        return safe_get_full_grad(parameter)
    finally:
        parameter.grad = own


def install(module: Any, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
    """Patches ``deepspeed.runtime.engine``: the optimizer is handed over before and after each step that the engine makes."""
    engine = getattr(module, "DeepSpeedEngine", None)
    if engine is None:
        return
    step = engine.step

    @functools.wraps(step)
    def stepped(this: Any, *args: Any, **kwargs: Any) -> Any:
        if not this.zero_optimization() or not this.is_gradient_accumulation_boundary():
            return step(this, *args, **kwargs)
        before(this.basic_optimizer)
        said = step(this, *args, **kwargs)
        after(this.basic_optimizer)
        return said

    engine.step = stepped
