"""Recognises by a trainer's words that a file could not be written. Pure.

Sources of the texts: Linux's own, strings of PyTorch, real failures on full disks.
"""

from __future__ import annotations

import re

READ_ONLY = re.compile(r"Read-only file system")
FULL_DISK = re.compile(r"No space left on device|Disk quota exceeded|file write failed|PytorchStreamWriter failed writing")
WHY = re.compile(rf"{READ_ONLY.pattern}|No space left on device|Disk quota exceeded|File too large")
"""Says why a file couldn't be written, whatever else failed of it."""
_UNSAID = re.compile(r"file write failed|PytorchStreamWriter failed writing|unexpected pos \d+ vs \d+|iostream error")
"""torch.save doesn't say why it couldn't write."""


def unsaid(words: str) -> bool:
    """Tells whether a file couldn't be written, and these words don't say why."""
    return _UNSAID.search(words) is not None and WHY.search(words) is None


def maybe_full(words: str) -> str:
    """The first line that a full disk may explain; empty if there is none."""
    return line_of(FULL_DISK, words) or (line_of(_UNSAID, words) if unsaid(words) else "")


def line_of(pattern: re.Pattern[str], words: str) -> str:
    """The first line with such a text; empty if there is none."""
    return next((line.strip()[:400] for line in words.splitlines() if pattern.search(line)), "")
