"""Judges by the losses that a run prints whether it diverges. Pure; ``watch`` acts."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_YOLO = re.compile(r"^\s*(\d+)/\d+\s+[\d.]+[GM]\s+(.+)")
"""Ultralytics' row: epoch, memory, the running means of its losses, instances, size. A mean stays NaN to the end of its epoch."""
_LOSS = re.compile(
    r"\b(?:train(?:ing)?[_ ])?loss['\"]?\s*[:=]?\s*['\"]?([-+]?(?:nan|inf(?:inity)?|\d[\d.]*(?:e[-+]?\d+)?))\b", re.IGNORECASE
)
_OF_VALIDATION = re.compile(r"(val|valid|validation|test|eval|dev)[ _/.-]*$", re.IGNORECASE)
_GRADIENTS = re.compile(
    r"\bgrad(?:ient)?s?[_ ]?norm['\"]?\s*[:=]?\s*['\"]?([-+]?(?:nan|inf(?:inity)?|\d[\d.]*(?:e[-+]?\d+)?))\b", re.IGNORECASE
)
_NOT_FINITE = re.compile(r"^[-+]?(nan|inf(inity)?)$", re.IGNORECASE)


def loss_report(line: str) -> tuple[str, bool] | None:
    """(what the report is about, whether the loss is a finite number); None for a line that tells no loss.

    Reports about the same thing (an epoch) count once; an empty text is about itself.
    """
    said = _ANSI.sub("", line)
    if row := _YOLO.match(said):
        return row[1], not any(_NOT_FINITE.match(word) for word in row[2].split())
    for found in _LOSS.finditer(said):
        if not _OF_VALIDATION.search(said[: found.start()]):
            return "", not _NOT_FINITE.match(found[1])
    return None


def gradients_report(line: str) -> bool | None:
    """Whether the norm of the gradients that a line tells is a finite number; None for a line that tells none."""
    found = _GRADIENTS.search(_ANSI.sub("", line))
    return not _NOT_FINITE.match(found[1]) if found is not None else None


class Losses:
    """Loss reports, as they come. One that is not finite and is followed by finite ones has been got over: a step that mixed precision left
    out, say."""

    def __init__(self, most: int) -> None:
        self._most, self._streak, self._about = most, 0, ""
        self.since: float | None = None
        """When the first of the reports in a row that aren't finite was printed, at the earliest; None: the last report was finite."""
        self.line = ""
        """The last report that was not finite; empty where ``since`` is None."""
        self.gradients = ""
        """The last report of the gradients' norm, where that is not finite. Hugging Face's Trainer logs the mean of earlier losses in the
        place of one that isn't finite (its default), and the norm as it is. A step that mixed precision left out has such a norm, too."""

    def saw(self, line: str, *, at: float) -> str:
        """ "first" and "enough" (``most`` in a row) for reports that aren't finite, once each; else nothing. ``at``: printed since."""
        if (gradients := gradients_report(line)) is not None:
            self.gradients = "" if gradients else line
        report = loss_report(line)
        if report is None:
            return ""
        about, finite = report
        if finite:
            self._streak, self._about, self.since, self.line = 0, "", None, ""
            return ""
        self.line = line
        if about and about == self._about:
            return ""
        self._about = about
        self._streak += 1
        self.since = at if self.since is None else self.since
        return "enough" if self._streak == self._most else "first" if self._streak == 1 else ""
