"""Rows of a resumable benchmark in their file: one line of JSON each, written as they come."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows that are there; a torn last line (a full disk, a lost machine) is as if it had not been written."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def append(path: Path, row: Row) -> None:
    """One line, whole or not at all as far as a file system can."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        line = json.dumps(row, ensure_ascii=False).replace(str(ROOT), "{root}")  # where it was played is nobody's business
        file.write(("\n" if torn else "") + line + "\n")
        file.flush()
        os.fsync(file.fileno())
