"""What is told while a launch goes on: each happening is a value, told once, to all who read it (docs/decisions/025)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Event:
    """Something that has happened to a launch. Each kind of it is a frozen dataclass that says what is known of it."""

    name: ClassVar[str]
    """Of its line in ``events.jsonl``; empty: it is only shown."""
    recorded: ClassVar[bool]
    """``record.json`` is another one now."""

    def __init_subclass__(cls, *, name: str = "", recorded: bool = False) -> None:
        cls.name, cls.recorded = name, recorded
        dataclass(frozen=True, kw_only=True)(cls)

    def line(self) -> Mapping[str, Any] | None:
        """What its line says; None: nothing that is worth one."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


Listener = Callable[[Event], None]
