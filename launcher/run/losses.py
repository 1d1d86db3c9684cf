"""Judges by the losses that a run prints whether it diverges. Pure; ``run.watch`` acts on it."""

from __future__ import annotations

from launcher.adapter.log_line import LogLine


class Losses:
    """Takes loss reports as they come. A loss that is finite again was no divergence: a step that mixed precision skipped, say."""

    def __init__(self, most: int) -> None:
        self._most, self._streak, self._about = most, 0, ""
        self.since: float | None = None
        """When the first of the reports in a row that aren't finite was printed, at the earliest; None: the last report was finite."""
        self.line = ""
        """The last report that was not finite; empty where ``since`` is None."""
        self.gradients = ""
        """The last report of the gradients' norm, where that is not finite. Hugging Face's Trainer logs the mean of earlier losses in the
        place of one that isn't finite (its default), and the norm as it is. A step that mixed precision left out has such a norm, too."""

    def saw(self, line: str, said: LogLine, *, at: float) -> str:
        """Returns "first" at the first report that isn't finite, "enough" at ``most`` of them in a row, each once; else "".

        ``said``: what was read of the line. ``at``: the earliest time at which it can have been printed.
        """
        if said.gradients_finite is not None:
            self.gradients = "" if said.gradients_finite else line
        if said.loss_finite is None:
            return ""
        if said.loss_finite:
            self._streak, self._about, self.since, self.line = 0, "", None, ""
            return ""
        self.line = line
        if said.loss_of and said.loss_of == self._about:
            return ""
        self._about = said.loss_of
        self._streak += 1
        self.since = at if self.since is None else self.since
        return "enough" if self._streak == self._most else "first" if self._streak == 1 else ""
