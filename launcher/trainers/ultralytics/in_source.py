"""Finds trainings in a script's source that give Ultralytics their settings there: ``YOLO("yolov8x.pt").train(**CONFIG)``.

autofit doesn't set Ultralytics' arguments inside a script yet. Such a command is refused, with the ``yolo`` command that trains the same.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.adapter.commands import script_among
from launcher.adapter.python_source import UNKNOWN, Constants, parsed
from launcher.errors import PLACE, BadInput, Fault

_MODELS = ("YOLO", "RTDETR", "NAS", "YOLOE", "YOLOWorld")
_BATCH = 16
"""Ultralytics' own default."""


def refuse(words: Sequence[str]) -> None:
    """Raises BadInput for a script whose training has its batch in the source. One that takes it from its command line is left alone."""
    script = script_among(words)
    source, tree = parsed(Path(script)) if script is not None else ("", None)
    if script is None or tree is None or not re.search(r"^\s*(from|import)\s+ultralytics\b", source, re.MULTILINE):
        return
    for line, model, given in _trainings(tree):
        batch = given.get("batch", _BATCH)
        if isinstance(batch, int) and not isinstance(batch, bool):
            raise BadInput([_fault(script, line, model, {**given, "batch": batch})])


def _fault(script: str, line: int, model: Any, given: Mapping[str, Any]) -> Fault:
    said = {"model": model, **given}
    words = [f"{name}={_word(value)}" for name, value in said.items() if value is not UNKNOWN and name != "device"]
    unread = [name for name, value in said.items() if value is UNKNOWN]
    rest = f" {' '.join(f'{name}=...' for name in unread)}" if unread else ""
    found = f"{script} line {line} gives Ultralytics its batch ({given['batch']}) in the source, where autofit can't set it yet"
    cure = (
        f"The same training as a command: autofit run -- yolo train {shlex.join(words)}{rest}. What else the script does is not part of "
        "that. Or let the script take the batch from its command line (--batch)."
    )
    return Fault(key=PLACE, found=found, cure=cure)


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _trainings(tree: ast.Module) -> Iterator[tuple[int, Any, dict[str, Any]]]:
    """(line, model, arguments) of each call of ``train`` on a model of Ultralytics'; an argument that can't be read is UNKNOWN."""
    known = Constants(tree)
    models = {
        target.id: node.value
        for node in ast.walk(tree) if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name) and _is_model(node.value)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "train":
            on = node.func.value
            made = models.get(on.id) if isinstance(on, ast.Name) else on if _is_model(on) else None
            if isinstance(made, ast.Call):
                first = made.args[0] if made.args else next((one.value for one in made.keywords if one.arg == "model"), None)
                yield node.lineno, known.value(first) if first is not None else "yolo26n.pt", dict(_arguments(node, known))


def _is_model(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _MODELS


def _arguments(node: ast.Call, known: Constants) -> Iterator[tuple[str, Any]]:
    for keyword in node.keywords:
        value = known.value(keyword.value)
        if keyword.arg is not None:
            yield keyword.arg, value
        elif isinstance(value, dict):
            yield from value.items()
        else:
            yield "batch", UNKNOWN
