"""Functions and dataclasses of a script -> the flags that fire, typer, tyro, HfArgumentParser and their like make of them. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from launcher.trainers.script.flags import Flag, literal

_FUNCTIONS = frozenset(("fire.Fire", "Fire", "typer.run", "jsonargparse.CLI", "jsonargparse.auto_cli", "CLI", "auto_cli", "tyro.cli"))
"""Calls that make a command line of what they are given first."""
_WRAPPED = frozenset(("wrap", "command", "call_parse"))
"""Decorators' last names that do so with the function below them, or with the class that its first parameter names."""
_ALL_CLASSES = frozenset(("HfArgumentParser", "TrlParser"))
"""Calls that take dataclasses, one or a list of them."""
_DASHED = frozenset(("typer.run", "tyro.cli", "command"))
"""Those that write ``batch_size`` as ``--batch-size``."""
_SWITCHED = frozenset(("typer.run", "tyro.cli", "command"))
"""Those in whose words a truth is ``--name`` and ``--no-name``."""


def flags_of(tree: ast.Module, file: str) -> list[Flag]:
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
            maker = ast.unparse(node.func)
            if maker in _FUNCTIONS:
                yield from ((maker, argument.id) for argument in node.args[:1] if isinstance(argument, ast.Name))
            elif maker.rpartition(".")[2] in _ALL_CLASSES:
                yield from ((maker, one.id) for one in ast.walk(node) if isinstance(one, ast.Name) and one is not node.func)
            elif maker.endswith(".add_arguments"):
                yield from ((maker, argument.id) for argument in node.args[:1] if isinstance(argument, ast.Name))
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
    if isinstance(default, bool) and maker in _SWITCHED:
        spelling = f"switch:{dashed}/--no-{dashed.removeprefix('--')}"
    return Flag(spelling=spelling, default=default, where=file, names=(f"--{name}", dashed))


_SECTIONS = {"DataModule": "data", "LightningModule": "model"}


def of_lightning(tree: ast.Module, file: str) -> list[Flag]:
    """What LightningCLI makes of the parameters of a data module (``--data.batch_size``) and of a model."""
    found = []
    for node in ast.walk(tree):
        bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
        section = next((section for name, section in _SECTIONS.items() if any(base.endswith(name) for base in bases)), None)
        made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"] if section else []  # type: ignore[attr-defined]
        for function in made:
            named = [*function.args.args[len(function.args.args) - len(function.args.defaults) :], *function.args.kwonlyargs]
            pairs = zip(named, [*function.args.defaults, *function.args.kw_defaults], strict=True)
            found += [Flag(spelling=f"--{section}.{name.arg}", default=literal(value), where=file) for name, value in pairs]
    return found
