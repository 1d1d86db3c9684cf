"""Computes what image files take in memory, from their headers alone. Imports neither torch nor Ultralytics."""

from __future__ import annotations

import math
from collections.abc import Sequence

SAMPLE = 1000
"""More images than this are judged by an even sample of this size, where a sample is enough."""


def cached_bytes(files: Sequence[str], image_size: int, channels: int = 3) -> int:
    """What ``cache=ram`` holds of these images: each with its long side = ``image_size`` (``BaseDataset.load_image``)."""
    from PIL import Image

    total = 0
    for file in files:
        try:
            with Image.open(file) as image:
                width, height = image.size
        except OSError:  # Ultralytics leaves it out
            continue
        scale = image_size / max(width, height)
        total += min(math.ceil(width * scale), image_size) * min(math.ceil(height * scale), image_size) * channels
    return total


def about_cached_bytes(files: Sequence[str], image_size: int, channels: int = 3) -> int:
    """The same of an even sample, extrapolated."""
    if len(files) <= SAMPLE:
        return cached_bytes(files, image_size, channels)
    chosen = [files[i * len(files) // SAMPLE] for i in range(SAMPLE)]
    return cached_bytes(chosen, image_size, channels) * len(files) // SAMPLE
