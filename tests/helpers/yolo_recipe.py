"""A recipe of a small YOLO training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autofit_launcher.config.schema import Recipe


def make(data: Path | str, *, ask: dict[str, Any] | None = None, args: dict[str, Any] | None = None, **more: Any) -> Recipe:
    asked = {"micro_batch": 4, "image_size": 96, "model": "yolov8s.yaml", "checkpointing": False, **(ask or {})}
    return Recipe.model_validate(
        {
            "name": "mine",
            "data": str(data),
            "ask": asked,
            "trainer": {"adapter": "ultralytics", "args": {"epochs": 2, **(args or {})}},
            "ladder": {"order": ("micro_batch", "image_size", "checkpointing", "model"), "wheels": {"image_size": {"values": (64,)}}},
            "device": {"kind": "cpu"},
            **more,
        }
    )
