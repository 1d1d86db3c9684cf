"""The accumulation that a script's source gives to Lightning's Trainer: ``Trainer(accumulate_grad_batches=4)``. Read, never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from launcher.adapter.python_source import Constants, parsed
from launcher.adapter.recognised import Belief
from launcher.trainers.script.spelling import CALL, LIGHTNING

_IMPORTED = re.compile(r"^\s*(?:import|from)\s.*\b(?:lightning|pytorch_lightning)\b", re.MULTILINE)


def accumulation(files: Iterable[Path]) -> Belief | None:
    """Of the first file that makes a Trainer of Lightning's; None where none does, or where a command line makes it (LightningCLI)."""
    for file in files:
        source, tree = parsed(file)
        if tree is None or not _IMPORTED.search(source) or "LightningCLI" in source:
            continue
        made = next((node for node in ast.walk(tree) if isinstance(node, ast.Call) and _makes(node)), None)
        if made is not None:
            return _said(made, tree, file)
    return None


def _makes(node: ast.Call) -> bool:
    """Whether a call makes a Trainer: by its name, or by Hydra (``instantiate(cfg.trainer)``)."""
    name = ast.unparse(node.func).rpartition(".")[2]
    return name == "Trainer" or (name == "instantiate" and bool(node.args) and ast.unparse(node.args[0]).endswith("trainer"))


def _said(node: ast.Call, tree: ast.Module, file: Path) -> Belief:
    word, place = LIGHTNING.removeprefix(CALL), f"{file.name} line {node.lineno}, Trainer"
    given = next((keyword.value for keyword in node.keywords if keyword.arg == word), None)
    value = Constants(tree).value(given) if given is not None else 1
    if isinstance(value, int) and not isinstance(value, bool) and not node.args:
        return Belief(
            wheel="accumulation", value=value, spelling=LIGHTNING, source=place if given is not None else f"the default of {place}"
        )
    return Belief(wheel="accumulation", value=1, spelling=LIGHTNING, source=f"{place}: computed there, so the first trial shows it")
