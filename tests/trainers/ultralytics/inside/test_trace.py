"""YOLO traced without memory: at any size what is traced at that size; and beside real trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.forecast.prediction import on_cpu
from launcher.shared import trace as events
from launcher.shared.report import Phase
from launcher.shared.sizes import MIB
from launcher.shared.trace import ACCUMULATE, Trace
from launcher.trainers.ultralytics.inside.capabilities import MODEL
from launcher.trainers.ultralytics.inside.trace import trace
from launcher.trainers.ultralytics.tracing import RESTS, WANTED


def payload(model: str, **changed: Any) -> dict[str, Any]:
    plain = {
        "model": model, "classes": 3, "channels": 3, "labels": 20, "optimizer": "AdamW", "amp": True, "freeze": None,
        "checkpointing": False,
        "cuda": True, "wanted": {"images": 11, "side": 2, "val_images": 13, "val_side": 3},
    }  # fmt: skip
    return {**plain, **changed}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def traced(tiny: str) -> Trace:
    return trace(payload(tiny))


def test_a_trace_at_other_sizes_is_what_is_traced_there(tiny: str, traced: Trace) -> None:
    other = trace(payload(tiny, wanted={"images": 23, "side": 19, "val_images": 37, "val_side": 29}))
    here, there = events.live(traced.at(other.traced_at)), events.live(other.events)
    for phase in (Phase.TRAIN, Phase.VALIDATE, ACCUMULATE):
        assert here[phase] == pytest.approx(there[phase], rel=2e-3)


def test_weights_their_average_two_moments_and_gradients_are_there_whatever_the_batch(traced: Trace) -> None:
    assert traced.facts is not None
    nothing = events.live(traced.at({"images": 0, "side": 0, "val_images": 0, "val_side": 0}))
    assert nothing[Phase.TRAIN] >= 4.9 * 4 * traced.facts["parameters"]  # dfl's few have no gradient


def test_every_large_storage_grows_by_images_and_pixels(traced: Trace) -> None:
    terms = {events.grows(event.size, list(traced.traced_at.values())).powers for event in traced.events if isinstance(event, events.Took)}
    assert {(1, 2, 0, 0), (0, 0, 1, 2), (0, 0, 0, 0)} <= terms
    assert all(sum(powers) <= 5 for powers in terms)


def test_checkpointing_and_fp32_are_seen(tiny: str, traced: Trace) -> None:
    at = {"images": 32, "side": 20, "val_images": 1, "val_side": 1}
    plain = events.live(traced.at(at))[Phase.TRAIN]
    assert events.live(trace(payload(tiny, checkpointing=True)).at(at))[Phase.TRAIN] < 0.9 * plain
    assert events.live(trace(payload(tiny, cuda=False, amp=False)).at(at))[Phase.TRAIN] > 1.2 * plain


ATTENDS = """
nc: 3
scale: n
scales: {n: [0.5, 0.25, 1024]}
backbone:
  - [-1, 1, Conv, [64, 3, 2]]
  - [-1, 1, Conv, [128, 3, 2]]
  - [-1, 1, Conv, [256, 3, 2]]
  - [-1, 1, C2PSA, [256]]
head:
  - [[3], 1, Detect, [nc]]
"""


def test_a_layer_that_keeps_fp32_under_autocast_is_run_again_as_it_was(tmp_path: Path) -> None:
    """Attention's softmax: its checkpoint is recomputed in the backward pass."""
    path = tmp_path / "attends.yaml"
    path.write_text(ATTENDS, encoding="utf-8")
    at = {"images": 32, "side": 20, "val_images": 1, "val_side": 1}
    plain, checkpointed = (events.live(trace(payload(str(path), checkpointing=one)).at(at))[Phase.TRAIN] for one in (False, True))
    assert checkpointed < plain


REAL = (
    ("yolo11n", 2, 224, 185, 154),
    ("yolo11n", 8, 224, 361, 218),
    ("yolo11n", 16, 160, 353, 223),
)
"""Model, images, pixels, MiB in training and validation: real trials of ``make fit`` on two cores."""


@pytest.mark.slow
def test_real_trials_on_a_cpu_come_out_near_the_forecast(tmp_path: Path) -> None:
    one = trace(payload("yolo11n.yaml", classes=10, cuda=False, amp=False, wanted=WANTED))
    for model, images, pixels, train, validate in REAL:
        at = {"images": images, "side": pixels // 32, "val_images": 2 * images, "val_side": pixels // 32 + 1}
        live = events.live(one.at(at))
        for phase, real in ((Phase.TRAIN, train), (Phase.VALIDATE, validate)):
            foreseen = on_cpu(live[phase], RESTS[phase])
            assert foreseen.live_bytes < real * MIB, (model, images, pixels, phase)
            assert foreseen.middle_bytes == pytest.approx(real * MIB, rel=0.15), (model, images, pixels, phase)
