"""A file of JSON lines in autofit's data folder, to which launches add what runs and trials have shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def add(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One write: two launches that end together keep both. A full disk, or a folder that can't be written, keeps nothing."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)


def read(path: Path, kind: Callable[..., T]) -> Iterator[T]:
    """Each line as one of ``kind``, oldest first; a torn line, or one of another version, is passed over."""
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError):
                yield kind(**json.loads(line))
