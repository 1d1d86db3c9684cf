"""Plain values of a script's own, by name: ``value:CONFIG['batch']``. Found in its source, set as it binds them. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autofit_launcher.adapter import wheel_names
from autofit_launcher.adapter.python_source import parsed, place
from autofit_launcher.adapter.recognised import Belief
from autofit_launcher.errors import PLACE, BadInput, Fault, did_you_mean
from autofit_launcher.trainers.script.candidates import is_count
from autofit_launcher.trainers.script.native.values import bindings
from autofit_launcher.trainers.script.spelling import VALUE, name

_LAST = re.compile(r"(\[[^\[\]]*\]|\.\w+|^\w+)$")
"""Entry or attribute that a name ends with: what is left of it holds the value."""
MOST_TOLD = 8


def of_script(script: Path) -> list[Belief]:
    """Finds the whole numbers above 0 that are written in a script, each as the wheel that its name means."""
    _, tree = parsed(script)
    found = [(one, node.value, place(script, node.lineno)) for one, node in bindings(tree.body if tree is not None else ())]
    return [
        Belief(wheel=wheel_names.meaning(name(VALUE + one)) or "", value=value, spelling=VALUE + one, source=f"{where}: {one} = {value}")
        for one, value, where in found if is_count(value)
    ]  # fmt: skip


def beliefs(words: Sequence[str], script: Path | None, said: str) -> dict[str, Belief]:
    """Makes the beliefs of the value that a person names as the batch size (``--set``); and of the accumulation, if one number of that
    name is written beside it, or anywhere in the script: both are turned then, as they are bound. Raises BadInput where there isn't just
    one such value in the file that the command names."""
    if script is None or str(script) not in words:
        raise BadInput(
            [Fault(key=PLACE, found=f"--set {said}: the command names no file of a script", cure="Start it as python train.py.")]
        )
    written = of_script(script)
    batch = _named(written, said.strip().replace('"', "'"), script)
    every = [one for one in written if one.wheel == "accumulation"]
    beside = [one for one in every if _LAST.sub("", one.spelling.removeprefix(VALUE)) == _LAST.sub("", batch.spelling.removeprefix(VALUE))]
    steps = beside or every
    found = {"micro_batch": replace(batch, wheel="micro_batch")}
    if len(steps) == 1 and steps[0].value > 1:  # a script that steps after every batch keeps what it works out of its batch
        found["accumulation"] = steps[0]
    return found


def _named(written: Sequence[Belief], said: str, script: Path) -> Belief:
    found = [one for one in written if one.spelling.removeprefix(VALUE) == said]
    if len(found) == 1:
        return found[0]
    if found:
        cure = f"Name one of its own: {'; '.join(one.source for one in found[:MOST_TOLD])}."
        raise BadInput([Fault(key=PLACE, found=f"--set {said}: it stands in {len(found)} places", cure=cure)])
    could = "; ".join(one.source for one in written if one.wheel == "micro_batch")
    near = f"Say one of these: {could}. " if could else did_you_mean(said, [one.spelling.removeprefix(VALUE) for one in written])
    cure = f"{near}A value is named as the source does: CONFIG['batch'], Config.batch_size, BATCH."
    raise BadInput([Fault(key=PLACE, found=f"--set {said}: no whole number of that name is written in {script}", cure=cure)])


def works_out_accumulation(files: Sequence[Path]) -> bool:
    """Tells whether the script divides a whole batch to know how many micro-batches a step takes: ``accum_steps = TOTAL // (BATCH *
    LENGTH)``. Its trials show how many they are."""
    return any(_divides(node) for file in files for node in ast.walk(parsed(file)[1] or ast.Module([], [])))


def _divides(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    named = any(wheel_names.meaning(name(f"{VALUE}{ast.unparse(target)}")) == "accumulation" for target in targets)
    value = getattr(node, "value", None)
    return named and value is not None and any(isinstance(one, (ast.Div, ast.FloorDiv)) for one in ast.walk(value))
