"""save_json on a person's own data: every image of a trial's validation has a number of its own, and all of the set are held at the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from launcher.trainers.ultralytics.inside.validates import number_images, repeat_custom_json


def validator(*batches: tuple[int, ...]) -> Any:
    script = SimpleNamespace(now=[SimpleNamespace(images=images) for images in batches])
    return SimpleNamespace(eval_ids=[0, 1], dataloader=SimpleNamespace(batch_sampler=script), build_gdict=True)


def test_images_that_come_several_times_have_a_number_each_time() -> None:
    one = validator((7, 3), (7, 3), (7,))
    number_images(one)
    assert one.eval_ids == [0, 1, 2, 3, 4]


def test_an_ultralytics_without_such_numbers_is_left_alone() -> None:
    one = validator((7,))
    one.eval_ids = None
    number_images(one)
    assert one.eval_ids is None


def test_predictions_and_truths_are_those_of_the_whole_set() -> None:
    one = validator((7, 3))
    one.pred_counts, one.jdict = [2, 1], [{"score": 0.1}, {"score": 0.2}, {"score": 0.3}]
    one.gdict = {
        "images": [{"id": 0}, {"id": 1}],
        "annotations": [{"id": 1, "image_id": 0}, {"id": (1 << 32) + 1, "image_id": 1}, {"id": (1 << 32 | 1) + 1, "image_id": 1}],
    }
    repeat_custom_json(one, 5)
    assert one.pred_counts == [2, 1, 2, 1, 2]
    assert [row["score"] for row in one.jdict] == [0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2]
    assert [image["id"] for image in one.gdict["images"]] == [0, 1, 2, 3, 4]
    assert [row["image_id"] for row in one.gdict["annotations"]] == [0, 1, 1, 2, 3, 3, 4]
    assert len({row["id"] for row in one.gdict["annotations"]}) == 7
