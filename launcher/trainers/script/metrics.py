"""Reads the last row of a script's metrics file: JSON, JSON lines or CSV."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any


def last_row(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            row = json.loads(text)
            return row if isinstance(row, dict) else dict(row[-1])
        if path.suffix == ".jsonl":
            return dict(json.loads(text.strip().splitlines()[-1]))
        rows = list(csv.DictReader(text.splitlines()))
    except (OSError, ValueError, IndexError, TypeError):
        return {}
    return {key: _number(value) for key, value in rows[-1].items()} if rows else {}


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
