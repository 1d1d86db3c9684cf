"""The figures that a run draws of its batches, all alive at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from launcher.trainers.ultralytics.inside.isolation import module
from launcher.trainers.ultralytics.inside.plan import COVERED

LONGEST_S = 60.0


class PlotThreads:
    """A figure is drawn in a thread of its own, which keeps its batch alive until it is done: for seconds, while the run goes on.

    How many are alive at once is luck (a run was seen two threads' stacks of 8 MiB above a trial that left it to luck). Here every
    thread and its batch stay until the phase ends, so that the trial has all of them at once.
    """

    def __init__(self) -> None:
        self._drawn: list[threading.Event] = []
        self._over = threading.Event()
        for name in (f"{task}.{part}" for task in COVERED for part in ("train", "val")):
            place = module(f"ultralytics.models.yolo.{name}")
            if hasattr(place, "plot_images"):
                place.plot_images = self._staying(place.plot_images)

    def _staying(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        def plot_images(*args: Any, **kwargs: Any) -> threading.Thread:
            drawn, over = threading.Event(), self._over

            def stay() -> None:
                try:
                    draw(*args, **kwargs, threaded=False)
                finally:
                    drawn.set()
                    over.wait()

            thread = threading.Thread(target=stay, daemon=True)
            thread.start()
            self._drawn.append(drawn)
            return thread

        return plot_images

    def let_go(self) -> None:
        """The phase is over."""
        self._over.set()
        self._over = threading.Event()

    def wait(self) -> None:
        """Until all have been drawn: what they need counts."""
        for drawn in self._drawn:
            drawn.wait(timeout=LONGEST_S)
