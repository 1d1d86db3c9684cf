"""Calls and names in a script's source -> the flags that they declare. Pure."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from launcher.trainers.script import constants


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A setting that a script understands."""

    spelling: str
    """In the words of ``spelling``."""
    default: Any = None
    where: str = ""
    names: tuple[str, ...] = ()
    """Every name it goes by, such as -b beside --batch-size."""


def configurable(source: str) -> bool:
    """Whether the command line sets the script's own names, as nanoGPT's configurator does."""
    return "configurator.py" in source or re.search(r"\bfor \w+ in sys\.argv\[1:\]", source) is not None


def of_call(node: ast.Call, file: str) -> Flag | None:
    """The flag that a call declares: argparse's, click's, typer's or absl's; None where it declares none."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    if name.startswith("DEFINE_"):
        return _absl(node, name.removeprefix("DEFINE_"), file)
    if name not in ("add_argument", "option", "Option"):
        return None
    flags = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and arg.value.startswith("-")]
    if not flags:
        return None
    chosen = max(flags, key=len)
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    action = keywords.get("action")
    action_name = action.value if isinstance(action, ast.Constant) else action.attr if isinstance(action, ast.Attribute) else ""
    if action_name == "store_true" or "is_flag" in keywords:
        return Flag(spelling=f"switch:{chosen.split('/')[0]}", default=False, where=file, names=tuple(flags))
    if action_name == "BooleanOptionalAction":
        return Flag(spelling=f"switch:{chosen}/--no-{chosen.lstrip('-')}", default=literal(keywords.get("default")), where=file)
    return Flag(spelling=chosen, default=literal(keywords.get("default")), where=file, names=tuple(flags))


def _absl(node: ast.Call, kind: str, file: str) -> Flag | None:
    """``flags.DEFINE_integer("batch_size", 64, "...")``"""
    said = [literal(argument) for argument in node.args[:2]]
    if len(said) < 2 or not isinstance(said[0], str):
        return None
    switch = kind in ("bool", "boolean")
    return Flag(spelling=f"switch:--{said[0]}/--no{said[0]}" if switch else f"--{said[0]}", default=said[1], where=file)


def literal(node: ast.expr | None) -> Any:
    """The value that an expression spells out; None where it is no literal."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def globals_of(tree: ast.Module, file: str) -> list[Flag]:
    """``batch_size = 12`` at the top of a script whose names the command line may set as ``--batch_size=8``."""
    found = []
    for node in tree.body:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = [(node.targets[0], node.value)]
        for target, value in pairs:
            if isinstance(target, ast.Name) and isinstance(value, (ast.Constant, ast.BinOp)) and (literal := _number(value)) is not None:
                found.append(Flag(spelling=f"--{target.id}=", default=literal, where=file))
    return found


def loaders_of(tree: ast.Module) -> list[int]:
    """Batch sizes of the data loaders that shuffle: ``DataLoader(data, batch_size=64, shuffle=True)``."""
    known = constants.Constants(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "DataLoader":
            said = {keyword.arg: keyword.value for keyword in node.keywords}
            if "shuffle" in said and literal(said["shuffle"]) is not False:  # one that is computed may be true
                size = said.get("batch_size") or next(iter(node.args[1:2]), None)
                value = known.value(size) if size is not None else None
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    found.append(value)
    return found


def _number(node: ast.expr) -> Any:
    """A literal, or a product of whole numbers such as ``5 * 8``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return left * right if isinstance(left, int) and isinstance(right, int) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)) else None
