"""Finds the modules of a model that repeat: several of one class under one parent. Beside ``checkpointing``; nothing is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

LEAST = 3
"""Modules of one class under one parent that are a stack."""


class Stack(NamedTuple):
    """Modules of one class, in their order."""

    where: str
    """Name of their parent, or of the list that holds them."""
    kind: str
    blocks: list[tuple[str, Any]]
    """Pairs (name, module)."""


def stacks(root: Any, name: str = "") -> list[Stack]:
    """Finds the stacks of ``root``. Of stacks within each other the inner one counts if it has most of a module's weights: the smaller what
    is computed again at once, the less memory that needs. A module that stands in several places counts once, at its first."""
    import torch

    groups: dict[tuple[str, type], dict[int, tuple[str, Any]]] = {}
    for where, called, module in _members(root, name):
        groups.setdefault((where, type(module)), {}).setdefault(id(module), (called, module))
    found = []
    for (where, kind), members in groups.items():
        blocks = []
        for called, module in members.values():
            inner = stacks(module, called)
            within = sum(_weights(block) for one in inner for _, block in one.blocks)
            if len(members) >= LEAST and _is_block(module, torch) and 2 * within < _weights(module):
                blocks.append((called, module))
            else:
                found += inner
        if blocks:
            found.append(Stack(where, kind.__name__, blocks))
    return found


def _members(parent: Any, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yields (where it stands, its name, the module): a parent's children, and those in lists of it, which aren't called themselves."""
    import torch

    for key, child in parent.named_children():
        called = f"{name}.{key}" if name else key
        if isinstance(child, torch.nn.ModuleList):
            yield from ((called, *rest) for _, *rest in _members(child, called))
        else:
            yield name, called, child


def _is_block(module: Any, torch: Any) -> bool:
    """Tells whether a module is made of others, so that it holds more than it is given; a recurrent one does, too."""
    made = next(module.children(), None) is not None or isinstance(module, torch.nn.RNNBase)
    return made and next(module.parameters(), None) is not None and not isinstance(module, torch.jit.ScriptModule)


def _weights(module: Any) -> int:
    return sum(one.numel() for one in module.parameters())
