"""The samples that a trial trains on and evaluates. Loads torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch


class FixedSampler(torch.utils.data.Sampler[int]):  # type: ignore[misc]
    """A sampler of ``indices`` that keeps what the run's own one (``beside``) keeps: an order of the whole set."""

    def __init__(self, indices: Sequence[int], *, beside: Any) -> None:
        self._indices, self._beside = indices, beside

    def __iter__(self) -> Iterator[int]:
        usual = iter(self._beside if self._beside is not None else ())
        next(usual, None)
        yield from self._indices
        del usual

    def __len__(self) -> int:
        return len(self._indices)


def rows_of(inputs: Mapping[str, Any]) -> int:
    """Samples of a micro-batch."""
    return next(int(value.shape[0]) for value in inputs.values() if hasattr(value, "shape"))


def heaviest_of(dataset: Any) -> int | None:
    """The sample whose loading takes most memory, where a built-in trainer's data can tell; None where all are alike."""
    weights = getattr(dataset, "loading_sizes", None)
    sizes = weights() if weights is not None else ()
    return max(range(len(sizes)), key=sizes.__getitem__) if sizes else None
