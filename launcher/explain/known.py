"""Reads known.yaml: what is said of kinds of failures, parts of a training, errors that are no want of memory, and in whose words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict


class Known(BaseModel):
    """One entry of the table, as far as it says something."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    signs: str = ""
    """Regular expression of a log's words that it is about."""
    headline: str = ""
    words: str = ""
    likely: str = ""
    """What most likely takes the memory."""
    means: str = ""
    on_card: bool = False
    first: str = ""
    """What helps first, whichever trainer it is."""
    changes: tuple[str, ...] = ()
    """What to change, best first, by the names of ``Dialect.changes``."""
    last: str = ""


class Dialect(BaseModel):
    """One trainer's words for what can be asked of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    trainer: str
    """As people call it; empty: any PyTorch training."""
    signs: str = ""
    """Regular expression of what only its logs hold."""
    changes: Mapping[str, str]


def speaker(log: str) -> Dialect:
    """Whose log it is, with the words of any PyTorch training where it has none of its own."""
    spoken = [Dialect(**entry) for entry in _read()["dialects"]]
    speaking = next(one for one in spoken if re.search(one.signs, log))
    return speaking.model_copy(update={"changes": {**spoken[-1].changes, **speaking.changes}})


@cache
def _read() -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("known.yaml").read_text(encoding="utf-8"))
    return told


@cache
def _table() -> dict[str, Any]:
    told = {section: said for section, said in _read().items() if section != "dialects"}
    return {
        section: {name: Known(**entry) for name, entry in said.items()} if isinstance(said, dict) else [Known(**entry) for entry in said]
        for section, said in told.items()
    }


def kinds() -> Mapping[str, Known]:
    """By ``trouble.Trouble``."""
    return _table()["kinds"]  # type: ignore[no-any-return]


def parts() -> Mapping[str, Known]:
    """By ``part.Part``."""
    return _table()["parts"]  # type: ignore[no-any-return]


def frame(chain: str) -> Known | None:
    """The frames of a traceback that tell more than the part in which it failed."""
    return next((one for one in _table()["frames"] if re.search(one.signs, chain)), None)


def meaning(line: str) -> str:
    """Meaning of an error's line that is no want of memory; empty if the table doesn't know it."""
    return next((one.means for one in _table()["errors"] if re.search(one.signs, line)), "")
