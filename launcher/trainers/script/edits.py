"""A rung of a script -> the edit that a person would make by hand: in its source, and in its configuration files. Nothing is written."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import files_of, parsed
from launcher.adapter.source_edits import Edits
from launcher.trainers.script import configs, source_facts, source_values, training_arguments
from launcher.trainers.script.spelling import Line


def of_line(line: Line, script: Path | None, *, given: Mapping[str, Any], values: Mapping[str, Any], config: Mapping[str, str]) -> str:
    """A unified diff, and what no edit of a line can say. ``given``, ``values``: what the script says of fields, and of values of its own;
    ``config``: key -> the file that has it."""
    edits = Edits()
    for spelling, wanted in line.values.items():
        file, _, name = spelling.partition(":")
        place = source_values.bound(Path(file), name, values[spelling])
        if place is not None:
            edits.constant(place.file, place.line, place.column, wanted)
    files = [Path(file).absolute() for file in files_of(script)] if script is not None else []
    for field, wanted in line.fields.items():
        for source, call in _calls(files, field):
            edits.keyword(source, call, field, (given.get(field), wanted))
    if line.split is not None and script is not None:
        _loader(edits, files, script, line.split)
    changed: dict[str, dict[str, Any]] = {}
    for key, wanted in line.config.items():
        changed.setdefault(config[key], {})[key] = wanted
    for path, changes in changed.items():
        edits.text(Path(path).absolute(), configs.edited(Path(path).read_text(encoding="utf-8"), Path(path).suffix, changes, new=changes))
    return edits.diff() + _beside(line)


def _calls(files: list[Path], name: str) -> list[tuple[Path, ast.Call]]:
    """The calls that take the field: those of Lightning's Trainer, or of transformers' arguments, in the first file that has one."""
    for file in files:
        _, tree = parsed(file)
        named = [(ast.unparse(node.func).rpartition(".")[2], node) for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
        trains = "Trainer".__eq__ if name == "accumulate_grad_batches" else training_arguments.is_class
        if found := [(file, node) for called, node in named if trains(called)]:
            return found
    return []


def _loader(edits: Edits, files: list[Path], script: Path, split: tuple[int, int, str]) -> None:
    """The loader that is made with a smaller batch, at its own call: what else the number is used for stays."""
    whole, part, place = split
    name, _, line = place.rpartition(":")
    known = source_facts.loader_in_source(script)
    at = [(file, int(line)) for file in files if file.name == name] if place else [(known.at.absolute(), known.line)] if known else []
    for file, number in at:
        _, tree = parsed(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call) and node.lineno == number and ast.unparse(node.func).rpartition(".")[2].endswith("DataLoader"):
                _smaller(edits, file, node, (whole, part))


def _smaller(edits: Edits, file: Path, made: ast.Call, change: tuple[int, int]) -> None:
    """One loader of a line; not one that is written with another batch."""
    said = made.args[1] if len(made.args) > 1 else next((one.value for one in made.keywords if one.arg == "batch_size"), None)
    if said is not None and not (isinstance(said, ast.Constant) and said.value != change[0]):
        edits.expression(file, said, change[1])


def _beside(line: Line) -> str:
    """What a person would have to write, and autofit does from outside."""
    some = f"# and the first {line.checkpointing:.0%} of its repeated modules are called by torch.utils.checkpoint\n"
    checkpointed = some if line.checkpointing else ""
    if line.outside <= 1:
        return checkpointed
    if line.parts:
        return checkpointed + (
            f"# its sampler gives the rows of each batch in {line.outside} parts, and its loop steps after the last of them, each loss\n"
            "# counted by the part's rows (or targets), as the run's native/accumulate does\n"
        )
    return checkpointed + (
        f"# and its training loop steps after every {line.outside} batches, each loss divided by {line.outside}, and at the end of a pass\n"
        "# by what is left, as the run's native/accumulate does\n"
    )
