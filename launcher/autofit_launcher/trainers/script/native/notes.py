"""Says what accumulation from outside has to say: notes on stderr, and what can't be exact. Beside ``accumulate``."""

from __future__ import annotations

import os
import sys
from typing import Any

STRICT_STEPS = 2
"""Optimizer steps in which whatever can't be exact ends the process; afterwards it is told."""


class NotExact(RuntimeError):
    """The update would not be the large batch's. The message says why, and what would work."""

    def __init__(self, why: str) -> None:
        super().__init__(f"accumulation from outside can't be exact here: {why}")


class Notes:
    """Tells notes, each once."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps = self.micro_batches = 0

    @property
    def strict(self) -> bool:
        """True in the first optimizer steps."""
        return self.steps < STRICT_STEPS

    def note(self, text: str) -> None:
        if text in self.notes:
            return
        self.notes.append(text)
        if os.environ.get("RANK", "0") == "0":
            print(f"accumulate: {text}", file=sys.stderr, flush=True)

    def trouble(self, text: str) -> None:
        """Tells something that can't be exact: ends the process in the first steps, leaves a word later on."""
        if self.strict:
            self.micro_batches = 0
            raise NotExact(text)
        self.note(f"from here on not the large batch's update: {text}")


def refuse_trainers(frame: object) -> None:
    """Raises NotExact where a trainer asks that counts its steps itself."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")  # type: ignore[attr-defined]
        if name in ("transformers.trainer", "lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"):
            raise NotExact(f"{name.split('.')[0]} counts the steps and accumulates by itself")
        frame = frame.f_back  # type: ignore[attr-defined]


def refuse_deepspeed(engine: Any) -> None:
    """Patches ``deepspeed.runtime.engine``, which makes the steps itself: one that is made raises NotExact."""

    def refused(*_: object, **__: object) -> None:
        raise NotExact("DeepSpeed makes the steps and accumulates by itself (gradient_accumulation_steps in its file)")

    engine.DeepSpeedEngine.__init__ = refused
