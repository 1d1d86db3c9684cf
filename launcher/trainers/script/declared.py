"""The flags that a script declares, in its own source or in the nearest local modules that it imports. Read, never run.

Options of argparse, click, typer and absl; parameters and fields of which fire, tyro, HfArgumentParser, LightningCLI and their like make
options; names that a configurator as nanoGPT's sets.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import imported, parsed

_MOST_FILES = 200
"""Local modules that are looked at, at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A setting that a script understands."""

    spelling: str
    """In the words of ``spelling``."""
    default: Any = None
    where: str = ""
    names: tuple[str, ...] = ()
    """Every name it goes by, such as -b beside --batch-size."""

    @property
    def bare(self) -> str:
        """Its word alone."""
        return self.spelling.removeprefix("switch:").split("/")[0].rstrip("=")


def of_script(path: Path, *, root: Path | None = None) -> list[Flag]:
    """What the script declares. Where it has no parser of its own (``from options import get_args``), what the modules that it imports
    do, the nearest ones: theirs is the command line then. ``root``: where its packages lie, if not beside it."""
    seen, layer = {path.resolve()}, [path]
    while layer and len(seen) <= _MOST_FILES:
        found = [flag for file in layer for flag in _of_source(file)]
        if found:
            return [*found, *(flag for file in layer for flag in _handed(file, root or path.parent))]
        below = [near for file in layer for near in imported(file, root or path.parent)]
        layer = [near for near in dict.fromkeys(below) if near not in seen]
        seen.update(layer)
    return []


def _handed(path: Path, root: Path) -> Iterator[Flag]:
    """What functions of imported modules add to a parser that the file hands them: ``train_util.add_training_arguments(parser)``."""
    _, tree = parsed(path)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args] if tree is not None else []
    handed = {ast.unparse(node.func).rpartition(".")[2] for node in calls if "parser" in ast.unparse(node.args[0]).lower()}
    for file in dict.fromkeys(imported(path, root)) if handed else ():
        near = parsed(file)[1]
        added = [node for node in ast.walk(near) if isinstance(node, ast.FunctionDef) and node.name in handed] if near is not None else []
        inner = (node for function in added for node in ast.walk(function) if isinstance(node, ast.Call))
        yield from (flag for node in inner if (flag := _of_call(node, file.name)) is not None)


def _of_source(path: Path) -> list[Flag]:
    """Every flag that one file declares: options of argparse, click, typer and absl, parameters and fields that become some, and a
    nanoGPT-like configurator's names."""
    source, tree = parsed(path)
    if tree is None:
        return []
    found = [flag for node in ast.walk(tree) if isinstance(node, ast.Call) and (flag := _of_call(node, path.name)) is not None]
    found = _with_set_defaults(found, tree)
    found += _of_signatures(tree, path.name)
    if "LightningCLI" in source:
        accumulation = Flag(spelling="--trainer.accumulate_grad_batches", default=1, where="Lightning")
        found += [accumulation, *_of_lightning(tree, path.name)]
    if _configurable(source):
        found += [Flag(spelling=f"--{name}=", default=value, where=path.name) for name, value in numbers(tree).items()]
    return found


def _configurable(source: str) -> bool:
    """Whether the command line sets the script's own names, as nanoGPT's configurator does."""
    return "configurator.py" in source or re.search(r"\bfor \w+ in sys\.argv\[1:\]", source) is not None


# ---- calls


def _of_call(node: ast.Call, file: str) -> Flag | None:
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


def _with_set_defaults(flags: list[Flag], tree: ast.Module) -> list[Flag]:
    """With what ``parser.set_defaults(batch_size=64)`` says; None, which is no default, where that is no literal."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "set_defaults"]
    said = {keyword.arg: literal(keyword.value) for call in calls for keyword in call.keywords}
    known = [(flag, flag.bare.lstrip("-").replace("-", "_")) for flag in flags]
    return [replace(flag, default=said[name]) if name in said else flag for flag, name in known]


def _absl(node: ast.Call, kind: str, file: str) -> Flag | None:
    """``flags.DEFINE_integer("batch_size", 64, "...")``"""
    said = [literal(argument) for argument in node.args[:2]]
    if len(said) < 2 or not isinstance(said[0], str):
        return None
    switch = kind in ("bool", "boolean")
    return Flag(spelling=f"switch:--{said[0]}/--no{said[0]}" if switch else f"--{said[0]}", default=said[1], where=file)


# ---- functions and dataclasses

_MAKERS = frozenset(("Fire", "CLI", "auto_cli", "cli", "HfArgumentParser", "TrlParser", "add_arguments"))
"""Last names of calls that make a command line of the functions and classes that they are given."""
_WRAPPED = frozenset(("wrap", "command", "call_parse"))
"""Decorators' last names that do so with the function below them, or with the class that its first parameter names."""
_DASHED = frozenset(("typer.run", "tyro.cli", "command"))
"""Those that write ``batch_size`` as ``--batch-size``, and a truth as ``--name`` and ``--no-name``."""


def _of_signatures(tree: ast.Module, file: str) -> list[Flag]:
    """Every parameter or field with a default that a command line may say, spelled as its maker does."""
    defined = {node.name: node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    found: list[Flag] = []
    for maker, name in _made_of(tree):
        node = defined.get(name)
        if node is not None:
            found += [_flag(maker, parameter, default, file) for parameter, default in _parameters(node)]
    return found


def _made_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(what makes a command line, of which function or class)"""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            maker, given = ast.unparse(node.func), [one for argument in node.args for one in ast.walk(argument)]
            if maker == "typer.run" or maker.rpartition(".")[2] in _MAKERS:
                yield from ((maker, one.id) for one in given if isinstance(one, ast.Name))
        elif isinstance(node, ast.FunctionDef):
            yield from _decorated(node)


def _decorated(node: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for decorator in node.decorator_list:
        said = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
        package, _, last = said.rpartition(".")
        if last not in _WRAPPED or package in ("hydra", "click"):
            continue
        if last == "wrap":  # pyrallis, draccus: the configuration is the class of the first parameter
            yield from ((said, parameter.annotation.id) for parameter in node.args.args[:1] if isinstance(parameter.annotation, ast.Name))
        else:
            yield last, node.name


def _parameters(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, Any]]:
    """(name, default) of a function's parameters or of a dataclass's fields, where the default is a number or a truth."""
    if isinstance(node, ast.FunctionDef):
        given = node.args
        pairs = [*zip(given.args[len(given.args) - len(given.defaults) :], given.defaults, strict=True)]
        pairs += [(one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None]
        said: list[tuple[str, ast.expr]] = [(one.arg, value) for one, value in pairs]
    else:
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None]
        said = [(one.target.id, one.value) for one in fields if isinstance(one.target, ast.Name) and one.value is not None]
    for name, value in said:
        default = _default(value)
        if isinstance(default, (bool, int, float)):
            yield name, default


def _default(value: ast.expr) -> Any:
    """A literal, or what ``field(default=8)`` and ``typer.Option(8, "--bs")`` say."""
    if isinstance(value, ast.Call):
        keyword = next((one.value for one in value.keywords if one.arg == "default"), None)
        if any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in value.args[1:]):
            return None  # it has names of its own
        return literal(keyword if keyword is not None else next(iter(value.args), None))
    return literal(value)


def _flag(maker: str, name: str, default: Any, file: str) -> Flag:
    dashed = f"--{name.replace('_', '-')}"
    spelling = dashed if maker in _DASHED else f"--{name}"
    if isinstance(default, bool) and maker in _DASHED:
        spelling = f"switch:{dashed}/--no-{dashed.removeprefix('--')}"
    return Flag(spelling=spelling, default=default, where=file, names=(f"--{name}", dashed))


_SECTIONS = {"DataModule": "data", "LightningModule": "model"}


def _of_lightning(tree: ast.Module, file: str) -> list[Flag]:
    """What LightningCLI makes of the parameters of a data module (``--data.batch_size``) and of a model."""
    found = []
    for node in (one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)):
        section = next((said for base in node.bases for kind, said in _SECTIONS.items() if ast.unparse(base).endswith(kind)), None)
        made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"] if section else []
        given = [parameter for function in made for parameter in _parameters(function)]
        found += [Flag(spelling=f"--{section}.{name}", default=default, where=file) for name, default in given]
    return found


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
