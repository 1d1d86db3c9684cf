"""What is told while a launch goes on: each happening is a value, told once, to all who read it (docs/decisions/025)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that has happened to a launch."""

    name: ClassVar[str] = ""
    """Of its line in ``events.jsonl``; empty: it is only shown."""
    recorded: ClassVar[bool] = False
    """``record.json`` is another one now."""

    def line(self) -> Mapping[str, Any] | None:
        """What its line says; None: nothing that is worth one."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


Listener = Callable[[Event], None]
