"""Memory in the place of images that a run keeps: its cache, and the buffer of mosaic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.trainers.ultralytics.images import about_cached_bytes, cached_bytes
from launcher.trainers.ultralytics.inside.worst import MicroBatch
from launcher.worker.recorder import Recorder


def ballast(dataset: Any, image_size: int, recorder: Recorder, mode: str) -> Any:
    """Memory in the place of cached images: as much as they take, and while they are packed twice that (``BaseDataset.cache_images``).

    Measured: exactly what ``cache=ram`` holds, since the run packs its images into one tensor of that size.
    """
    import numpy as np

    size = cached_bytes(dataset.im_files, image_size, getattr(dataset, "channels", 3))
    recorder.note(f"cache=ram: {mode} holds {len(dataset.im_files)} images of {size / 2**20:.0f} MiB; as much is held in the trial")
    images, packed = np.empty(size, np.uint8), np.empty(size, np.uint8)
    recorder.sample()
    del images
    return packed


def beside_a_card(datasets: Sequence[Any], image_size: int) -> int:
    """Bytes of host memory that the cached images of these data sets take at most: the larger one is packed while all are there."""
    sizes = [about_cached_bytes(one.im_files, image_size, getattr(one, "channels", 3)) for one in datasets]
    return sum(sizes) + max(sizes)


def fill_mosaic_buffer(dataset: Any, draw: MicroBatch) -> None:
    """Mosaic keeps the last images it has read, eight batches of them at most; the trial's few would not come to that."""
    shapes = [label.get("shape", (1, 1)) for label in dataset.labels]
    squarest = sorted(range(len(dataset)), key=lambda i: -min(shapes[i]) / max(shapes[i]))  # the long side is the same for all
    for image in list(dict.fromkeys((*draw.images, *squarest)))[: dataset.max_buffer_length]:
        dataset.load_image(image)
    dataset.buffer = list(dict.fromkeys(draw.images))  # mosaic's partners come from here: dense ones
