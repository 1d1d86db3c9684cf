"""The label assigner runs out of memory on a whole batch, and on no single image."""

from __future__ import annotations

from typing import Any

import torch
from ultralytics.utils.tal import TaskAlignedAssigner

from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.trainers.ultralytics.inside import trial as ultralytics_trial


def run(orders: Orders, recorder: Recorder) -> None:
    assign = TaskAlignedAssigner._forward

    def failing(self: Any, scores: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if len(scores) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return assign(self, scores, *args, **kwargs)

    TaskAlignedAssigner._forward = failing
    ultralytics_trial.run(orders, recorder)
