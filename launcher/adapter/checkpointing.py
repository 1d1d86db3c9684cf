"""What ``checkpointing`` may be: true, false, or a share of the layers. Pure."""

from __future__ import annotations

from launcher.config.schema import Recipe
from launcher.errors import Fault

_WHEEL = "checkpointing"


def share_faults(recipe: Recipe) -> list[Fault]:
    """Faults of shares, asked or in the ladder, that aren't between 0 and 1."""
    turned = recipe.ladder.wheels.get(_WHEEL)
    values = [(f"ladder.wheels.{_WHEEL}.values", value) for value in (turned.values or () if turned is not None else ())]
    return [
        Fault(key=key, found=f"{value}", cure="Say true, false, or a share between 0 and 1, such as 0.5.")
        for key, value in [(f"ask.{_WHEEL}", recipe.ask.get(_WHEEL)), *values]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not 0 < value < 1
    ]
