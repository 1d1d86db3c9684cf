"""Base of the events of a launch: frozen values, each told once to all readers (docs/decisions/013)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Event:
    """Something that happened in a launch. Each kind is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


Listener = Callable[[Event], None]
