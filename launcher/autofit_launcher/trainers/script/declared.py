"""The flags that a script declares, in its own source or in local modules that it imports. Read, never run.

Options of argparse and click, and names that a configurator as nanoGPT's sets. What others declare the command says, or the first
trial shows.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofit_launcher.adapter.python_source import files_of, parsed


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A setting that a script understands."""

    spelling: str
    """The flag in the words of ``spelling``."""
    default: Any = None
    where: str = ""
    names: tuple[str, ...] = ()
    """The names that it goes by, such as -b beside --batch-size."""

    @property
    def bare(self) -> str:
        """The flag's word alone."""
        return self.spelling.removeprefix("switch:").split("/")[0].rstrip("=")


def of_script(path: Path) -> list[Flag]:
    """Finds what the script declares; or the modules that it imports, if it has no parser of its own (``from options import get_args``)."""
    return _of_source(path) or [flag for file in files_of(path)[1:] for flag in _of_source(file)]


def _of_source(path: Path) -> list[Flag]:
    """Finds the flags that one file declares: options of argparse and click, and a nanoGPT-like configurator's names."""
    source, tree = parsed(path)
    if tree is None:
        return []
    found = [flag for node in ast.walk(tree) if isinstance(node, ast.Call) and (flag := _of_call(node, path.name)) is not None]
    if "configurator.py" in source or re.search(r"\bfor \w+ in sys\.argv\[1:\]", source):  # as nanoGPT's sets the script's own names
        found += [Flag(spelling=f"--{name}=", default=value, where=path.name) for name, value in numbers(tree).items()]
    return found


# ---- calls


def _of_call(node: ast.Call, file: str) -> Flag | None:
    """The flag that a call declares: argparse's or click's; None where it declares none."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    if name not in ("add_argument", "option"):
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


# ---- literals


def literal(node: ast.expr | None) -> Any:
    """The value that an expression spells out; None where it is no literal."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def numbers(tree: ast.Module) -> dict[str, Any]:
    """Name -> number of the assignments at the top of a file: ``batch_size = 12``."""
    found = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and (value := _number(node.value)) is not None:
            found[target.id] = value
    return found


def _number(node: ast.expr) -> Any:
    """A literal, or a product of whole numbers such as ``5 * 8``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return left * right if isinstance(left, int) and isinstance(right, int) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)) else None
