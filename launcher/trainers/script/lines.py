"""Lines of a script's source, known by their text: where ``train.py:31`` stands now, if the script was edited since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.adapter.commands import script_among
from launcher.adapter.python_source import files_of, parsed


def text_at(place: str, words: Sequence[str]) -> str:
    """The text of that line; nothing where the file isn't found beside the script."""
    line, lines = int(place.rpartition(":")[2]), _lines(place, words)
    return lines[line - 1] if 0 < line <= len(lines) else ""


def now_at(place: str, known: Mapping[str, str], words: Sequence[str]) -> str:
    """The place where the line of that text stands now; the same where nothing is known of it, and nothing where it is no longer there, or
    stands several times."""
    text, lines = known.get(place, ""), _lines(place, words)
    if not text or not lines or text_at(place, words) == text:
        return place
    found = [number for number, line in enumerate(lines, start=1) if line == text]
    return f"{place.rpartition(':')[0]}:{found[0]}" if len(found) == 1 else ""


def _lines(place: str, words: Sequence[str]) -> list[str]:
    script = script_among(words)
    files = files_of(Path(script)) if script is not None and Path(script).is_file() else ()
    file = next((one for one in files if one.name == place.rpartition(":")[0]), None)
    return [line.strip() for line in parsed(file)[0].splitlines()] if file is not None else []
