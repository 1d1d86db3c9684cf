"""The worst of the data: which images, in which shapes, in which order, and that standing in for them changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autofit_launcher.common.orders import Orders
from autofit_launcher.trainers.ultralytics.inside.worst import (
    MicroBatch,
    TrialBatches,
    label_factor,
    pad_labels,
    shapes_of,
    training,
    validation,
    varied,
)
from tests.helpers.shapes import ShapesData


def loader(labels: list[int], batch: int, *, group_of: list[int] | None = None, shapes: list[tuple[int, int]] | None = None) -> Any:
    dataset = SimpleNamespace(
        labels=[{"cls": [0] * count} for count in labels],
        rect=group_of is not None,
        batch=np.array(group_of or []),
        batch_shapes=np.array(shapes or []),
    )
    return SimpleNamespace(dataset=dataset, batch_size=batch)


def test_the_last_batch_of_an_epoch_is_a_shape_of_its_own() -> None:
    assert shapes_of(loader([3, 9, 1, 7, 2], 2)) == [MicroBatch((1, 3)), MicroBatch((1,))]
    assert shapes_of(loader([3, 9, 1, 7, 2], 2), last_kept=False) == [MicroBatch((1, 3))]
    assert shapes_of(loader([3, 9, 1, 7], 2)) == [MicroBatch((1, 3))]


def test_a_batch_in_parts_has_the_shapes_of_its_parts() -> None:
    assert [len(one.images) for one in shapes_of(loader([3, 9, 1, 7, 2, 5, 4, 8], 6), most=4)] == [4, 2]
    rect = loader([1, 3, 9, 1], 4, group_of=[0, 0, 0, 0], shapes=[(64, 64)])
    assert shapes_of(rect, most=2) == [MicroBatch((2, 1))]


def test_the_batch_of_the_densest_image_is_told_apart() -> None:
    groups = loader([9, 1, 1, 1], 2, group_of=[0, 0, 1, 1], shapes=[(10, 10), (20, 20)])
    assert varied(shapes_of(groups)) == [MicroBatch((2, 3)), MicroBatch((0, 1))]


def asked(*, accumulation: int) -> Orders:
    return Orders(module="", folder="", device="cpu", cap_bytes=1, accumulation=accumulation, payload={})


def test_an_epoch_goes_from_the_largest_over_a_small_and_an_odd_one_to_the_largest_again() -> None:
    large, odd, small = (MicroBatch((0, 1), size) for size in (96, 64, 32))
    before, after, closed = training([large, odd, small], asked(accumulation=8), closes=True)
    assert before == [large, small, odd, large, small], "one is left over: gradients are held in validation"
    assert after == [large, small, odd, large]
    assert closed == [large, large]


def test_a_validation_ends_with_its_largest_shape() -> None:
    shapes = [MicroBatch((number, number + 1)) for number in range(6)]
    shapes[4] = replace(shapes[4], labels=9)
    assert validation(shapes, least=2, total=9) == [shapes[0], shapes[4], shapes[5], shapes[3], shapes[0]]


def test_the_script_gives_each_epoch_its_own_batches_and_goes_on_for_workers_that_fetch_ahead() -> None:
    script = TrialBatches([MicroBatch((0,)), MicroBatch((1,))], [MicroBatch((2,))])
    assert len(script) == 2
    assert list(islice(script, 5)) == [[0], [1], [2], [2], [2]]
    script.epoch = 1
    assert len(script.sampler) == 1
    assert list(islice(script, 2)) == [[2], [2]]


@pytest.mark.parametrize(
    ("changes", "rect", "factor"),
    [
        ({}, False, 4),
        ({"mosaic": 0.0}, False, 1),
        ({"mixup": 0.1}, False, 8),
        ({"copy_paste": 0.3}, False, 4),
        ({"copy_paste": 0.3, "task": "obb"}, False, 8),
        ({"mixup": 0.1}, True, 1),
    ],
    ids=["mosaic", "none", "mixup", "copy-paste-of-boxes", "copy-paste-of-oriented-boxes", "rect"],
)
def test_augmentation_multiplies_labels(exact: Any, changes: dict[str, Any], rect: bool, factor: int) -> None:
    from ultralytics.cfg import get_cfg

    assert label_factor(get_cfg(overrides={"task": "detect", **changes}), rect) == factor


@pytest.mark.parametrize("task", ["detect", "obb", "pose", "segment"])
def test_padded_labels_leave_the_loss_as_it_was(exact: Any, shapes: Callable[..., ShapesData], tmp_path: Path, task: str) -> None:
    import torch

    from tests.helpers.yolo_exact import SUFFIXES, trained_batch

    model, batch = trained_batch(exact, task, f"yolov8n{SUFFIXES[task]}.yaml", shapes(task), tmp_path / "run")
    most = int(torch.bincount(batch["batch_idx"].long()).max())
    plain = [float(value) for value in model(dict(batch))[1].values()]
    assert pad_labels(batch, 4 * most, overlap_masks=True) == 4 * most
    assert int(torch.bincount(batch["batch_idx"].long()).max()) == 4 * most
    assert batch["batch_idx"].tolist() == sorted(batch["batch_idx"].tolist())
    assert [float(value) for value in model(dict(batch))[1].values()] == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(("images", "in_set", "told"), [(4, 12, 4), (1, 12, 1), (2, 2, 4)])
def test_a_data_set_smaller_than_the_micro_batch_is_no_smaller_micro_batch(images: int, in_set: int, told: int) -> None:
    from autofit_launcher.trainers.ultralytics.inside.steers import Steered

    observed: dict[str, int] = {}
    recorder = SimpleNamespace(observe_most=lambda **seen: observed.update(seen))
    trainer: Any = SimpleNamespace(_recorder=recorder, _micro_batch=4, train_loader=SimpleNamespace(dataset=range(in_set)))
    Steered._observe(trainer, np.zeros((images, 3, 64, 64)))
    assert observed["micro_batch"] == told
