"""Reads known.yaml: what is said of kinds of failures, parts of a training, errors that are no want of memory, and in whose words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel


class Known(BaseModel, extra="forbid", frozen=True):
    """One entry of the table, as far as it says something; its head tells the fields."""

    signs: str = ""
    words: str = ""
    likely: str = ""
    """Words on what most likely takes the memory, or on what an error means."""
    memory: bool | None = True
    on_card: bool = False
    may_fit: bool = True
    first: str = ""
    """The change that helps first, whichever trainer it is."""
    changes: tuple[str, ...] = ()
    last: str = ""
    unknown: str = ""
    """A sentence on what the log leaves open."""
    terms: Mapping[str, str] = {}
    """A trainer's own words for each change."""


class Table(BaseModel, extra="forbid", frozen=True):
    """The whole of known.yaml."""

    kinds: Mapping[str, Known]
    """Entries by ``LogFailure.kind``."""
    parts: Mapping[str, Known]
    frames: tuple[Known, ...]
    """Entries for frames of a traceback, which tell more than the part in which it failed."""
    errors: tuple[Known, ...]
    """Errors that are none of PyTorch's memory; ``on_card``: of a card's memory all the same, in a program of another kind."""
    dialects: tuple[Known, ...]


@cache
def table() -> Table:
    return Table.model_validate(yaml.safe_load(Path(__file__).with_name("known.yaml").read_text(encoding="utf-8")))


def speaker(log: str) -> Known:
    """Finds whose log it is, with the words of any PyTorch training where its trainer has none of its own."""
    spoken = table().dialects
    speaking = next(one for one in spoken if re.search(one.signs, log))
    return speaking.model_copy(update={"terms": {**spoken[-1].terms, **speaking.terms}})


def match(entries: tuple[Known, ...], text: str) -> Known | None:
    """The first of the entries whose signs the text holds."""
    return next((one for one in entries if re.search(one.signs, text)), None)
