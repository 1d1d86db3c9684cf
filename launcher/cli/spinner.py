"""Shows what is being done: a spinner with its seconds on a terminal, elsewhere a line once it has taken a while."""

from __future__ import annotations

import threading
import time

import rich.spinner
from rich.console import Console
from rich.live import Live
from rich.text import Text

from launcher.shared.activity import Activity

SILENT_S = 3.0
"""Nobody is left longer than this without a word of what is being done."""
SHOWN_FROM_S = 2.0
"""From then on the seconds are shown."""


class Spinner:
    """Hears of activities (``activity.listen``)."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._now: Activity | None = None
        self._timer: threading.Timer | None = None

    def __call__(self, activity: Activity | None) -> None:
        if self._console.is_terminal:
            self._drawn(activity)
        else:
            self._told_later(activity)

    def _drawn(self, activity: Activity | None) -> None:
        self._now = activity
        if activity is None and self._live is not None:
            self._live.stop()
            self._live = None
        elif activity is not None and self._live is None:
            drawing = rich.spinner.Spinner("dots", self)  # it is asked for its words at each drawing
            self._live = Live(drawing, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False)
            self._live.start()

    def __rich__(self) -> Text:
        now = self._now
        seconds = time.monotonic() - now.since if now is not None else 0.0
        return Text((now.words if now is not None else "") + (f"  {seconds:.0f} s" if seconds >= SHOWN_FROM_S else ""))

    def _told_later(self, activity: Activity | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if activity is not None and not activity.told:
            self._timer = threading.Timer(SILENT_S, self._tell, (activity,))
            self._timer.daemon = True
            self._timer.start()

    def _tell(self, activity: Activity) -> None:
        if not activity.told:
            activity.told = True
            self._console.print(Text(f"{activity.words} ..."), soft_wrap=True)
