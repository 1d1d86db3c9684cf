"""Reads from a script's source what its flags don't say of its batches: their unit, their parts, schedules made from them. Runs nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.adapter import wheel_names
from launcher.adapter.python_source import Constants, files_of, parsed, place
from launcher.trainers.script.batches import is_count
from launcher.trainers.script.sources import literal


def in_tokens(path: Path | None, name: str) -> bool:
    """Whether a line of the script that speaks of a setting speaks of tokens, too: ``help="total batch size in tokens"``."""
    source = parsed(path)[0] if path is not None else ""
    spelled = re.compile(rf"\b{'[-_]'.join(map(re.escape, re.split('[-_]', name.strip('-'))))}\b")
    return any("token" in line.lower() and spelled.search(line) for line in source.splitlines())


def in_order(path: Path) -> bool:
    """Whether the script's parser takes flags and configuration files in their order, so that a file overrules a flag before it."""
    return any(word in parsed(path)[0] for word in ("LightningCLI", "jsonargparse"))


_NOMINAL = (
    re.compile(r"^\s*(?:self\.)?(?:nbs|nominal_batch(?:_size)?)\s*=\s*(\d+)", re.MULTILINE),
    re.compile(r"accumulate\w*\s*=.*\bround\(\s*(\d+)\s*/\s*(?:\w+\.)*\w*batch_?size\s*\)"),
)
"""How scripts of YOLOv5's kind say the batch up to which they accumulate by themselves."""


def nominal_batch(path: Path) -> int | None:
    """The batch up to which the script, or a local module that it imports, accumulates by itself; None where it says none."""
    for file in files_of(path):
        source, _ = parsed(file)
        if "accumulate" in source and (found := next((match for one in _NOMINAL if (match := one.search(source))), None)):
            return int(found[1]) or None
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Loader:
    """A data loader in the source."""

    batch: int
    """As a number, or what comes to one; 0 where the source doesn't tell."""
    said: str
    """As it is written there: ``CONFIG['batch']``."""
    at: Path
    line: int
    shuffles: bool
    trains: bool
    """By the name that it is bound to: ``train_dataloader``."""
    evaluates: bool
    """By its name, too: ``val_dataloader``."""

    @property
    def file(self) -> str:
        return self.at.name

    @property
    def place(self) -> str:
        """Where it has to be told by its place; empty where it is one that shuffles."""
        return "" if self.shuffles else f"{self.file}:{self.line}"


def loader_in_source(path: Path) -> Loader | None:
    """The loader that trains, in the script's source, or else in a local module that it imports: one that shuffles and isn't named as one
    of a validation, else one that is named so. None where there is none, where a file has different ones, or where its batch isn't told."""
    for file in files_of(path):
        _, tree = parsed(file)
        loaders = list(_loaders_of(tree, file)) if tree is not None else []
        shuffling = [one for one in loaders if one.shuffles and not one.evaluates]
        if found := [one for one in shuffling if one.trains] or shuffling or [one for one in loaders if one.trains]:
            alike = len({one.batch for one in found}) == 1 and (found[0].shuffles or len(found) == 1)
            return found[0] if alike and found[0].batch else None
    return None


_EVALUATES = re.compile(r"val|test|dev(?!ice)")


def _loaders_of(tree: ast.Module, file: Path) -> Iterator[Loader]:
    known = Constants(tree)
    named = {id(node.value): " ".join(map(_name, node.targets)) for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "DataLoader":
            said = {keyword.arg: keyword.value for keyword in node.keywords}
            size = said.get("batch_size") or next(iter(node.args[1:2]), None)
            batch = known.value(size) if size is not None else None
            name = named.get(id(node), "").lower()
            yield Loader(
                batch=batch if is_count(batch) else 0,
                said=ast.unparse(size) if size is not None else "",
                at=file,
                line=node.lineno,
                shuffles="shuffle" in said and literal(said["shuffle"]) is not False,  # one that is computed may be true
                trains="train" in name,
                evaluates="train" not in name and bool(_EVALUATES.search(name)),
            )


_KERAS = re.compile(r"^\s*(?:import|from)\s+(?:tensorflow\.)?keras\b", re.MULTILINE)


def batch_of_a_call(path: Path) -> str:
    """The batch that the source gives to a call, and why it isn't changed there; nothing where it gives none. Where the one loader that
    trains has it, ``loader_in_source`` finds it."""
    for file in files_of(path):
        source, tree = parsed(file)
        for name, function, line, batch in _batches_of_calls(tree) if tree is not None else ():
            said = f"the batch is {batch} ({name} of {function}, {place(file, line)})"
            if function.rpartition(".")[2] == "DataLoader":
                return f"{said}, and which loader trains isn't clear: let it shuffle, or name it (train_loader = DataLoader(...))"
            if function.rpartition(".")[2] == "fit" and _KERAS.search(source):
                return (
                    f"{said}, and Keras' own optimizer makes its steps, which can't be held back until a whole batch is in: make it a word "
                    "of the command (argparse's --batch-size) and accept a smaller batch (autofit run --allow-batch), or launch it without "
                    "autofit"
                )
            return (
                f"{said}, and autofit changes it only in a DataLoader, in TrainingArguments, and in a call that is given its accumulation "
                "beside it (grad_accum_steps=1): make it a word of the command (argparse's --batch-size), or launch it without autofit"
            )
    return ""


def _batches_of_calls(tree: ast.Module) -> Iterator[tuple[str, str, int, int]]:
    """(keyword, function, line, batch)"""
    known = Constants(tree)
    for node in ast.walk(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            batch = known.value(keyword.value) if wheel_names.meaning(keyword.arg or "") == "micro_batch" else None
            if isinstance(node, ast.Call) and is_count(batch):
                yield keyword.arg or "", ast.unparse(node.func), node.lineno, batch


_SCHEDULE = re.compile(r"LR$|[Ss]chedule|OneCycle|[Ww]armup")
"""What the last name of a call says that makes a schedule."""


def counted_by_batch(path: Path) -> str:
    """The place of a schedule that is made of a division by the batch size, such as ``train.py, line 57``; nothing where there is none.

    ``steps = epochs * len(data) // args.batch_size; CosineAnnealingLR(optimizer, T_max=steps)``: told a micro-batch, such a script makes a
    schedule that is as many times too long as there are micro-batches in a step. ``len(loader)`` is told right (``native/accumulate.py``).
    """
    _, tree = parsed(path)
    if tree is None:
        return ""
    counted = _names_counted_so(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _SCHEDULE.search(ast.unparse(node.func).rpartition(".")[2])]
    for call in calls:
        if any(_counts(argument, counted) for argument in (*call.args, *(keyword.value for keyword in call.keywords))):
            return f"{path.name}, line {call.lineno}"
    return ""


def _names_counted_so(tree: ast.Module) -> frozenset[str]:
    """Names that are given a value of such a division, or of another of those names."""
    counted: frozenset[str] = frozenset()
    given = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    while True:
        more = {name for node in given if _counts(node.value, counted) for target in node.targets if (name := _name(target))}
        if more <= counted:
            return counted
        counted |= more


def _counts(value: ast.expr, counted: frozenset[str]) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)) and _is_batch(node.right):
            return True
        if isinstance(node, (ast.Name, ast.Attribute)) and _name(node) in counted:
            return True
    return False


def _is_batch(divisor: ast.expr) -> bool:
    return any(wheel_names.meaning(_name(node).rpartition(".")[2]) == "micro_batch" for node in ast.walk(divisor) if _name(node))


def _name(node: ast.AST) -> str:
    """``steps`` and ``self.steps``; nothing for what is no name."""
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
