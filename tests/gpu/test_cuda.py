"""Real CUDA failures on emulated cards. Needs one GPU: `make gpu-check CASE=tests`. The cap is the allocator's; the figures say so.

Every case builds its model from a .yaml and makes its data, so that no network is needed, and appends its figures to
``benchmarks/results/gpu-tests.jsonl`` with the card's name and the versions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.machine import devices
from launcher.shared import card_memory
from launcher.shared.sizes import GIB
from tests.conftest import write_yolo_dataset
from tests.gpu.figures import NEEDS_GPU, autofit, predicted_device_bytes, write_figures

pytestmark = NEEDS_GPU


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_yolo_dataset(tmp_path / "dataset", train=64, val=16, size=640, dense=60)
    return tmp_path


@pytest.mark.parametrize(
    ("card", "recipe", "model"),
    [
        ("16GiB", "yolo11l_rtx4080s_component", "yolo11l.yaml"),
        ("40GiB", "yolov8x_a100", "yolov8x.yaml"),
        ("80GiB", "yolov8x_a100", "yolov8x.yaml"),
    ],
    ids=["16GiB", "40GiB", "80GiB"],
)
def test_an_emulated_card_really_runs_out_and_the_chosen_rungs_full_run_stays_under_its_predicted_peak(
    place: Path, card: str, recipe: str, model: str
) -> None:
    words = (f"device.memory={card}", "device=cuda", f"ask.model={model}")
    data = ("data=dataset/data.yaml", "trainer.args.epochs=3", "trainer.args.workers=0")
    status, said, err = autofit(place, "train", f"recipe={recipe}", *data, *words)
    assert status == 0, err
    write_figures(f"{recipe} on {card}", said, packages=("torch", "ultralytics"))
    cap = said["device"]["cap_bytes"]
    assert cap == int(said["device"]["budget_bytes"] * 0.9)
    failures = [one for one in said["trials"] if one["verdict"] == "out_of_memory"]
    assert failures, "what these recipes ask for does not fit these cards (SCENARIOS S1, S2)"
    assert all(one["source"] in ("allocator", "driver") for one in failures)
    assert all(one["peak_bytes"] <= cap for one in said["trials"])
    assert said["run"]["peak_bytes"] <= predicted_device_bytes(said) * 1.02, "the full run must stay under what its trial saw"


def test_nothing_is_left_on_the_card_after_a_failed_trial(place: Path) -> None:
    budget = devices.find("cuda", headroom=0.1)
    words = (
        "recipe=yolo11l_rtx4080s_solder",
        "data=dataset/data.yaml",
        "ask.model=yolo11l.yaml",
        "rung=0",
        "device.memory=4GiB",
        "trainer.args.workers=0",
    )
    status, said, err = autofit(place, "trial", *words, "device=cuda")
    assert (status, said["verdict"]) == (3, "out_of_memory"), err
    free = devices.free_now(budget)
    assert free is not None and budget.free_bytes - free < card_memory.SETTLED_BYTES


def test_expandable_segments_are_on_where_a_rung_checkpoints(place: Path) -> None:
    words = ("recipe=yolo11l_rtx4080s_solder", "data=dataset/data.yaml", "ask.model=yolo11n.yaml", "ask.checkpointing=true", "rung=0")
    status, said, err = autofit(place, "trial", *words, "trainer.args.workers=0", "device=cuda")
    assert (status, said["verdict"]) == (0, "fits"), err


def test_an_unbudgeted_card_offers_what_the_driver_says(place: Path) -> None:
    budget = devices.find("cuda", headroom=0.0)
    assert GIB < budget.budget_bytes <= budget.total_bytes
    assert not budget.emulated
