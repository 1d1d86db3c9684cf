"""The gate: every fault at once, each with key, place, value and cure; nothing unvalidated passes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.registry import known_adapters, load_adapter
from autofit_launcher.config import recipe as recipes
from autofit_launcher.config.recipe import Draft, Provenance
from autofit_launcher.errors import BadInput, Fault
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter

GOOD: dict[str, Any] = {
    "name": "mine",
    "ask": {"micro_batch": 64, "image_size": 1280, "model": "yolov8x.yaml", "checkpointing": False},
    "trainer": {"adapter": "ultralytics", "args": {"epochs": 3}},
    "ladder": {"order": ["micro_batch", "image_size", "checkpointing", "model"]},
}


def draft(**changes: Any) -> Draft:
    config = OmegaConf.merge(OmegaConf.create(GOOD), OmegaConf.create(changes))
    return recipes.checked(config, Provenance())  # type: ignore[arg-type]


def ladder_faults(**changes: Any) -> dict[str, Fault]:
    checked = draft(**changes)
    assert checked.recipe is not None
    try:
        ladder_of(UltralyticsAdapter(checked.recipe))
    except BadInput as refused:
        return {fault.key: fault for fault in (*checked.faults, *refused.faults)}
    return {fault.key: fault for fault in checked.faults}


def test_all_faults_are_told_at_once_and_say_what_was_meant() -> None:
    checked = draft(
        trainer={"arg": {}}, device={"memory": "lots", "headroom": 1.5}, trial={"steps": 1, "timeout_s": "long"}, ask={"micro_batch": 64}
    )
    keys = {fault.key: fault for fault in checked.faults}
    assert set(keys) == {"trainer.arg", "device.memory", "device.headroom", "trial.steps", "trial.timeout_s"}
    assert "Did you mean 'args'?" in keys["trainer.arg"].cure
    assert keys["device.headroom"].found == "found 1.5" and "less than 1" in keys["device.headroom"].cure
    assert checked.recipe is not None, "what is left is still checked further"


@pytest.mark.parametrize("said", [900, "900", "900KiB", -1])
def test_a_budget_that_no_trainer_starts_in_is_refused(said: object) -> None:
    (fault,) = draft(device={"memory": said}).faults
    assert fault.key == "device.memory" and fault.found == f"found {said!r}" and "say a unit, as in 900MiB" in fault.cure


@pytest.mark.parametrize(("ask", "key"), [
    ({"micro_batch": 0}, "ask.micro_batch"), ({"micro_batch": True}, "ask.micro_batch"), ({"accumulation": -1}, "ask.accumulation"),
    ({"image_size": "big"}, "ask.image_size"), ({"checkpointing": "half"}, "ask.checkpointing"), ({"model": 8}, "ask.model"),
])  # fmt: skip
def test_a_wrong_value_asked_for_is_a_fault_of_its_key(ask: dict[str, Any], key: str) -> None:
    assert key in ladder_faults(ask=ask)


@pytest.mark.parametrize(("wheels", "words"), [
    ({"micro_batch": {"floor": 128}}, "floor 128 is not a whole number from 1 to the asked 64"),
    ({"micro_batch": {"floor": 0}}, "floor 0 is not"),
    ({"micro_batch": {"values": [48]}}, "micro-batch 48 does not keep the effective batch at 64; these do: 64, 32, 16, 8, 4, 2, 1"),
    ({"image_size": {"floor": 2000}}, "floor 2000 is not a whole number from 1 to the asked 1280"),
    ({"model": {"floor": "z"}}, "floor 'z' is no size of yolov8x.yaml; its sizes are x, l, m, s, n"),
    ({"checkpointing": {"values": ["maybe"]}}, "'maybe' is not true or false"),
])  # fmt: skip
def test_an_impossible_wheel_says_why(wheels: dict[str, Any], words: str) -> None:
    (fault,) = ladder_faults(ladder={"wheels": wheels}).values()
    assert words in fault.found


def test_an_unknown_wheel_in_the_order_and_one_named_twice_are_faults() -> None:
    fault = ladder_faults(ladder={"order": ["micro_batch", "imagesize", "model", "model"]})["ladder.order"]
    assert "image_size" in fault.cure or "twice" in fault.found


@pytest.mark.parametrize(
    ("asked", "values", "kept"),
    [
        (1280, (1024, 640), (1280, 1024, 640)),
        (832, (1024, 640), (832, 640)),  # a smaller size asked on the command line never falls back to a larger one
        (256, (512, 1024), (256, 512, 1024)),  # a wheel that saves by rising, such as a hop
    ],
)
def test_fall_backs_are_what_lies_behind_the_asked_value(asked: int, values: tuple[int, ...], kept: tuple[int, ...]) -> None:
    checked = draft(
        ask={"mine": asked},
        ladder={"order": ["micro_batch", "mine"], "wheels": {"mine": {"values": list(values), "argument": "close_mosaic"}}},
    )
    assert checked.recipe is not None
    ladder = ladder_of(UltralyticsAdapter(checked.recipe))
    assert [wheel.values for wheel in ladder.wheels if wheel.name == "mine"] == [kept]


@pytest.mark.parametrize(("model", "floor", "kept"), [
    ("yolov8x.yaml", "m", ["yolov8x.yaml", "yolov8l.yaml", "yolov8m.yaml"]), ("yolo11x.yaml", "yolov8l", ["yolo11x.yaml", "yolo11l.yaml"]),
    ("yolov8n.yaml", "m", ["yolov8n.yaml"]),
])  # fmt: skip
def test_the_floor_of_the_model_is_a_size_whatever_model_is_asked(model: str, floor: str, kept: list[str]) -> None:
    checked = draft(ask={"model": model}, ladder={"wheels": {"model": {"floor": floor}}})
    assert checked.recipe is not None
    ladder = ladder_of(UltralyticsAdapter(checked.recipe))
    assert [list(wheel.values) for wheel in ladder.wheels if wheel.name == "model"] == [kept]


def test_an_unknown_adapter_names_the_known_ones() -> None:
    with pytest.raises(BadInput, match="Did you mean 'ultralytics'"):
        load_adapter("ultralitics")
    assert "ultralytics" in known_adapters()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 3000) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "floor", "values", "order", "args", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [
    "ask", "ask.micro_batch", "ask.image_size", "ask.model", "ask.accumulation", "ask.nonsense", "trainer", "trainer.args",
    "trainer.adapter", "ladder", "ladder.order", "ladder.wheels", "ladder.wheels.micro_batch", "ladder.wheels.image_size", "device",
    "device.memory", "device.headroom", "trial", "trial.steps", "run.root", "data", "prepare", "rung", "name", "summary", "nonsense",
]  # fmt: skip


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=4))
def test_whatever_a_recipe_says_it_becomes_a_ladder_or_faults_with_cures(changes: dict[str, Any]) -> None:
    """Fuzz: never an exception of another kind, and never a fault without words."""
    config = OmegaConf.create(GOOD)
    for key, value in changes.items():
        try:
            OmegaConf.update(config, key, value, merge=False, force_add=True)
        except Exception:  # OmegaConf itself refuses the shape, as the command line would
            return
    checked = recipes.checked(config, Provenance())
    faults = list(checked.faults)
    if checked.recipe is not None:
        try:
            ladder = ladder_of(UltralyticsAdapter(checked.recipe))
            assert len({rung.effective_batch for rung in ladder.rungs}) == 1
        except BadInput as refused:
            faults += refused.faults
    else:
        assert faults
    assert all(fault.found and fault.cure for fault in faults)
