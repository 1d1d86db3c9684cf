"""A figure that a script draws of its training -> as many points as the run will have had by then.

Agg rasterizes a curve in one piece, and its memory grows with the points: 12 x 8 inches at 300 dpi take 71 MiB for 189 noisy points,
199 for 5000 and 1259 for 50,000. A trial that has left out most steps has left out most points.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from .session import Session

CURVE = 8
"""Points of a line that can be a value for every step."""
MOST_POINTS = 1_000_000


def hooks(session: Session) -> dict[str, Callable[[ModuleType], None]]:
    """Module name -> what to do when it has been imported."""
    return {"matplotlib.lines": lambda module: _lines(module, session)}


def _lines(module: Any, session: Session) -> None:
    draw = module.Line2D.draw

    @functools.wraps(draw)
    def drawn(line: Any, *args: Any, **kwargs: Any) -> Any:
        if not session.active or session.orders.device != "cpu":
            return draw(line, *args, **kwargs)
        with _of_the_whole_run(line, session.left_out):
            return draw(line, *args, **kwargs)

    module.Line2D.draw = drawn


@contextlib.contextmanager
def _of_the_whole_run(line: Any, factor: float) -> Iterator[None]:
    """While open, a line of many points has ``factor`` times as many, over the same span."""
    import numpy as np

    theirs = line.get_data(orig=True)
    with contextlib.suppress(TypeError, ValueError):  # what is no number stays as it is
        x, y = (np.asarray(values, float) for values in line.get_data(orig=False))
        points = min(round(len(x) * factor), MOST_POINTS)
        if len(x) >= CURVE and points > len(x):
            line.set_data(np.linspace(np.nanmin(x), np.nanmax(x), points), np.tile(y, math.ceil(factor))[:points])
    try:
        yield
    finally:
        line.set_data(*theirs)
