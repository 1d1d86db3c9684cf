"""Reads YAML that somebody else may have written: no more of it than a recipe holds."""

from __future__ import annotations

from typing import Any

import yaml

MOST_LETTERS = 1 << 20
"""Letters that a text, and what its aliases unfold to, may have; of the latter each value and key counts as 50 more."""


def plain(text: bytes | str) -> Any:
    """Reads a text as YAML. Raises ValueError where it is none, or too much of it."""
    try:
        loader, node = bounded(text)
        return loader.construct_document(node) if node is not None else None
    except (RecursionError, yaml.YAMLError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def bounded(text: bytes | str) -> tuple[yaml.SafeLoader, yaml.Node | None]:
    """Returns (a loader, the node that the text is). Raises ValueError where it is too much, and YAMLError and RecursionError."""
    if len(text) <= MOST_LETTERS:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None or _letters(node, {}) <= MOST_LETTERS:
            return loader, node
    raise ValueError("it unfolds to more than a recipe holds")


def _letters(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Letters that a node would take if no part of it were said by an alias; one that holds itself is without end."""
    if node not in known:
        known[node] = MOST_LETTERS + 1
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        below = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        known[node] = 50 + (sum(_letters(one, known) for one in below) if below else len(node.value))
    return known[node]
