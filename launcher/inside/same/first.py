"""The twin that another is held against, and that may still be running: its files, waited for until it is over."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from .told import OVER, RESULT

LOOK_S = 0.05


class First:
    """Where the first twin of a round writes."""

    def __init__(self, records: str) -> None:
        """``records``: folder of the records of its processes; empty: this is the first."""
        self._records = Path(records) if records else None

    def __bool__(self) -> bool:
        return self._records is not None

    def file(self, name: str) -> Path | None:
        """A file that its process writes whole; None where it never came."""
        if self._records is None:
            return None
        while True:
            over = (self._records / OVER).exists()  # before the look: what is written last isn't missed
            if (found := next(iter(sorted(self._records.glob(f"*/{name}"))), None)) is not None or over:
                return found
            time.sleep(LOOK_S)

    def sites(self) -> dict[str, str]:
        """Lines of code that draw in its collate functions, as it has written at its first step."""
        path = self.file(RESULT)
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
        found: dict[str, str] = said.get("sites", {})
        return found
