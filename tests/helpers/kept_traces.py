"""Traces of a small detector, as if they had been made before."""

from __future__ import annotations

from launcher.config.schema import Recipe
from launcher.forecast import trace_store
from launcher.ladder.rungs import Ladder
from launcher.shared import trace as events
from launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from tests.helpers import traces


def adapter() -> UltralyticsAdapter:
    return UltralyticsAdapter(
        Recipe.model_validate(
            {
                "name": "mine",
                "ask": {"model": "yolo11n.yaml", "micro_batch": 64, "image_size": 640, "checkpointing": False},
                "trainer": {"adapter": "ultralytics", "args": {"epochs": 1, "optimizer": "AdamW"}},
                "ladder": {"order": ("micro_batch", "checkpointing"), "wheels": {"micro_batch": {"floor": 2}}},
                "device": {"kind": "cuda"},
            }
        )
    )


def keep_traces(one: UltralyticsAdapter, ladder: Ladder, *, cuda: bool = True) -> None:
    """As if they had been made before: checkpointing keeps a third of the layers."""
    for rung in ladder.rungs:
        layers = 2 if rung.values["checkpointing"] else 6
        trace = traces.of_a_detector(layers=layers)
        events.write(trace_store.folder() / f"{one.tracing(rung, cuda=cuda).ask().key}.trace", trace)
