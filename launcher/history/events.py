"""Base of the events of a launch: frozen values, each told once to all readers (docs/decisions/013)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Event:
    """Something that happened in a launch. Each kind is a frozen dataclass."""

    name: ClassVar[str]
    """Name of its line in ``events.jsonl``; empty: it has no line and is only shown."""

    def __init_subclass__(cls, *, name: str = "") -> None:
        cls.name = name
        dataclass(frozen=True, kw_only=True)(cls)

    def line(self) -> Mapping[str, Any] | None:
        """Keys of its line in ``events.jsonl``; None: it gets no line."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


Listener = Callable[[Event], None]
