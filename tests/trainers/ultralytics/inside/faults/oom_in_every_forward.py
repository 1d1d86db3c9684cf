"""Every forward pass of a micro-batch of more than one image raises PyTorch's own out-of-memory error."""

from __future__ import annotations

from typing import Any

import torch
from ultralytics.nn.tasks import DetectionModel

from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.trainers.ultralytics.inside import trial as ultralytics_trial


def run(orders: Orders, recorder: Recorder) -> None:
    forward = DetectionModel.forward

    def failing(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        if self.training and isinstance(x, dict) and len(x["img"]) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(self, x, *args, **kwargs)

    DetectionModel.forward = failing
    ultralytics_trial.run(orders, recorder)
