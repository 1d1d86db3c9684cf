"""Traces made by hand, for tests that need no torch."""

from __future__ import annotations

from launcher.shared.report import Phase
from launcher.shared.trace import ACCUMULATE, Began, Convolved, Gave, Multiplied, Took, Trace, TraceEvent

IMAGES, SIDE, VAL_IMAGES, VAL_SIDE = 13, 11, 17, 19
WEIGHTS = 64 * 2**20
PER_IMAGE = 128 * 1024
"""Bytes for each image and each square of 32 x 32 pixels."""


def of_a_detector(*, weights: int = WEIGHTS, per_image: int = PER_IMAGE, layers: int = 6) -> Trace:
    """Weights, state of twice their size, layers whose outputs live until the backward pass, a validation that keeps two of them."""
    events: list[TraceEvent] = [Began(Phase.SETUP), Took(0, weights), Took(1, 2 * weights), Began(Phase.TRAIN)]
    key = 2
    key = _micro_batch(events, key, weights, IMAGES * SIDE * SIDE * per_image, layers, gradients=None)
    events.append(Began(Phase.VALIDATE))
    seen = VAL_IMAGES * VAL_SIDE * VAL_SIDE * per_image
    events += [Took(key, seen), Took(key + 1, seen), Gave(key), Gave(key + 1)]
    key += 2
    events.append(Began(ACCUMULATE))
    gradients = key
    events.append(Took(gradients, weights))
    _micro_batch(events, key + 1, weights, IMAGES * SIDE * SIDE * per_image, layers, gradients=gradients)
    sizes = {"images": IMAGES, "side": SIDE, "val_images": VAL_IMAGES, "val_side": VAL_SIDE}
    return Trace(traced_at=sizes, events=tuple(events), versions={"torch": "2.15.0"}, assumed=("twenty objects",), facts={})


def _micro_batch(events: list[TraceEvent], key: int, weights: int, output: int, layers: int, *, gradients: int | None) -> int:
    outputs = list(range(key, key + layers))
    for each in outputs:
        events += [Convolved(False, output, 4096, output, False), Took(each, output)]
    events.append(Multiplied(False))
    key += layers
    made = key if gradients is None else gradients
    if gradients is None:
        events.append(Took(key, weights))
        key += 1
    for each in reversed(outputs):
        events += [Convolved(True, output, 4096, output, False), Multiplied(True), Gave(each)]
    events.append(Gave(made))
    return key


def sizes(images: int, side: int, *, val_images: int | None = None) -> dict[str, int]:
    return {"images": images, "side": side, "val_images": val_images or 2 * images, "val_side": side + 1}
