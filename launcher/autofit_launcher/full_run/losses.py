"""Takes in a run's losses. Pure; ``full_run.run`` acts on them."""

from __future__ import annotations

from autofit_launcher.adapter.log_line import LogLine


class Losses:
    """Takes loss reports as they come. A loss that is finite again was no divergence: a step that mixed precision skipped, say."""

    def __init__(self, most: int) -> None:
        self._most, self._streak, self._about = most, 0, ""
        self.line = ""
        """The last report, where it was not finite; else empty."""

    def saw(self, line: str, said: LogLine) -> str:
        """Returns "first" at the first report that isn't finite, "enough" at ``most`` of them in a row, each once; else "".

        ``said``: what was read of the line.
        """
        if said.loss_finite is None:
            return ""
        if said.loss_finite:
            self._streak, self._about, self.line = 0, "", ""
            return ""
        self.line = line
        if said.loss_of and said.loss_of == self._about:
            return ""
        self._about = said.loss_of
        self._streak += 1
        return "enough" if self._streak == self._most else "first" if self._streak == 1 else ""
