"""Reads the cards that a training asks for in Ultralytics' words, and each card's part of its batch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from launcher.errors import PLACE, BadInput, Fault

_ALL = re.compile(r"(?:cuda:)?\d+(?:,(?:cuda:)?\d+)*")


def asked(device: Any) -> tuple[int, ...]:
    """``device=0,1``, ``[0, 1]`` or ``cuda:0,1`` as numbers, whether or not they are here; empty for one card, and for a CPU."""
    found = _numbers(device)
    return found if len(found) > 1 else ()


def _numbers(device: Any) -> tuple[int, ...]:
    said = re.sub(r"[\[\]() ]", "", ",".join(map(str, device)) if isinstance(device, (list, tuple)) else str(device))
    return tuple(map(int, re.findall(r"\d+", said))) if _ALL.fullmatch(said) else ()


def batch_of_each(batch: Any, cards: tuple[int, ...]) -> Any:
    """Each card's part of the batch. Raises BadInput where Ultralytics would drop a remainder without a word."""
    if not cards or not isinstance(batch, int) or batch < 1:
        return batch
    if batch % len(cards):
        below = batch // len(cards) * len(cards)
        found = f"batch={batch} over {len(cards)} cards: Ultralytics would train {below} of them"
        raise BadInput([Fault(key=PLACE, found=found, cure=f"Take a multiple of {len(cards)}: batch={below + len(cards)}.")])
    return batch // len(cards)


def section(device: Any) -> Mapping[str, Any]:
    """What a recipe says of them. Several cards are asked for even where there is none: such a launch is refused, as Ultralytics
    refuses it, instead of training all in one process."""
    if str(device) == "cpu":
        return {"kind": "cpu"}
    found = _numbers(device)
    return {"kind": "cuda", "cards": list(found)} if len(found) > 1 else {"index": found[0]} if found and found[0] else {}
