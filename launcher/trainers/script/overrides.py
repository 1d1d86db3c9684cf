"""Finds the words by which a script's command line overrules its configuration files: ``-u key=value``, ``KEY value``. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from launcher.adapter.python_source import files_of, parsed
from launcher.trainers.script.sources import literal
from launcher.trainers.script.spelling import YACS

_NAMES = frozenset(("update", "cfg_options", "override", "overrides", "options", "opts"))
"""Names of options that take ``key=value``: D-FINE's and RT-DETR's, mmengine's, and others'."""


def option(script: Path, words: Sequence[str]) -> str | None:
    """The option behind which the script takes ``key=value``, as the command spells it; None where it declares none."""
    for file in files_of(script):
        _, tree = parsed(file)
        for flags in _declared(tree) if tree is not None else ():
            return next((flag for flag in flags if flag in words), flags[0])
    return None


def _declared(tree: ast.Module) -> Iterator[list[str]]:
    """The flags of arguments that take several words and are called so."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("add_argument"):
            continue
        flags = [flag for one in node.args if isinstance(flag := literal(one), str) and flag.startswith("-")]
        many = any(keyword.arg == "nargs" and literal(keyword.value) in ("+", "*") for keyword in node.keywords)
        if many and any(flag.lstrip("-").replace("-", "_") in _NAMES for flag in flags):
            yield flags


def spelled(key: str, behind: str | None) -> str | None:
    """How the command line says a key of a file; None where it can't. ``behind``: the script's ``option``."""
    if YACS.fullmatch(key):
        return key
    return f"{behind} {key}=" if behind is not None else None
