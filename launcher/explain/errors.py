"""Tells the meaning of errors that are no want of memory, by the table in errors.yaml."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import yaml


def meaning(line: str) -> str:
    """Meaning of an error's line; empty if the table doesn't know it."""
    return next((means for signs, means in _table() if signs.search(line)), "")


@cache
def _table() -> tuple[tuple[re.Pattern[str], str], ...]:
    entries = yaml.safe_load(Path(__file__).with_name("errors.yaml").read_text(encoding="utf-8"))
    return tuple((re.compile(entry["signs"]), entry["means"]) for entry in entries)
