"""An Ultralytics whose loader takes its images from elsewhere than its ``batch_sampler``: in the order of their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ultralytics.data.build import InfiniteDataLoader

from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.trainers.ultralytics.inside import trial as ultralytics_trial


def run(orders: Orders, recorder: Recorder) -> None:
    def in_order(self: Any) -> Iterator[Any]:
        for number in range(len(self)):
            first = number * self.batch_size
            yield self.collate_fn([self.dataset[index % len(self.dataset)] for index in range(first, first + self.batch_size)])

    InfiniteDataLoader.__iter__ = in_order
    ultralytics_trial.run(orders, recorder)
