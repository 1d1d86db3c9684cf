"""Memory in the place of images that a run keeps: its cache, and the buffer of mosaic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.trainers.ultralytics.images import about_cached_bytes, cached_bytes
from launcher.trainers.ultralytics.inside.worst import MicroBatch
from launcher.worker.recorder import Recorder


def ballast(dataset: Any, image_size: int, recorder: Recorder, mode: str) -> Any:
    """Memory in the place of cached images: as much as they take, and while they are packed twice that (``BaseDataset.cache_images``).

    Measured: exactly what ``cache=ram`` holds, since the run packs its images into one tensor of that size. It is written to: memory that
    nobody has touched is none of the machine's.
    """
    import numpy as np

    size = cached_bytes(dataset.im_files, image_size, getattr(dataset, "channels", 3))
    recorder.note(f"cache=ram: {mode} holds {len(dataset.im_files)} images of {size / 2**20:.0f} MiB; as much is held in the trial")
    images, packed = np.ones(size, np.uint8), np.ones(size, np.uint8)
    recorder.sample()
    del images
    return packed


def beside_a_card(datasets: Sequence[Any], image_size: int) -> int:
    """Bytes of host memory that the cached images of these data sets take at most: the larger one is packed while all are there."""
    sizes = [about_cached_bytes(one.im_files, image_size, getattr(one, "channels", 3)) for one in datasets]
    return sum(sizes) + max(sizes)


def fill_mosaic_buffer(dataset: Any, draw: MicroBatch, *, whole: bool) -> None:
    """Mosaic keeps the last images it has read, eight batches of them at most; the trial's few would not come to that. ``whole``: this
    process reads them; where workers do, ``in_buffers`` says what they come to."""
    for image in list(dict.fromkeys((*draw.images, *(_squarest(dataset) if whole else ()))))[: dataset.max_buffer_length]:
        dataset.load_image(image)
    dataset.buffer = list(dict.fromkeys(draw.images))  # mosaic's partners come from here: dense ones


def in_buffers(dataset: Any, image_size: int, workers: int) -> int:
    """Bytes that loader workers keep of the last images they have read, each its own (``BaseDataset.load_image``)."""
    largest = _squarest(dataset)[: dataset.max_buffer_length]
    return workers * sum(int(image_size**2 * getattr(dataset, "channels", 3) * _squareness(dataset, image)) for image in largest)


def _squarest(dataset: Any) -> list[int]:
    """Images, the largest first: the long side is the same for all."""
    return sorted(range(len(dataset)), key=lambda image: -_squareness(dataset, image))


def _squareness(dataset: Any, image: int) -> float:
    shape = dataset.labels[image].get("shape", (1, 1))
    return float(min(shape) / max(shape))
