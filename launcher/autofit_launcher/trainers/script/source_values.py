"""Plain values of a script's own, by name: ``value:train.py:CONFIG['batch']``. Found in its source, set as it binds them. Nothing is run.

A spelling is the file and the name as ``native/values.py`` has it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from autofit_launcher.adapter import wheel_names
from autofit_launcher.adapter.python_source import files_of, parsed
from autofit_launcher.adapter.recognised import Belief
from autofit_launcher.errors import PLACE, BadInput, Fault, did_you_mean
from autofit_launcher.trainers.script.candidates import is_count
from autofit_launcher.trainers.script.native.values import bindings
from autofit_launcher.trainers.script.spelling import VALUE
from autofit_launcher.trainers.script.spelling import name as last

_LAST = re.compile(r"(\[[^\[\]]*\]|\.\w+|^\w+)$")
"""Entry or attribute that a name ends with: what is left of it holds the value."""
MOST_TOLD = 8


class Place(NamedTuple):
    """A whole number above 0 in a script's source."""

    file: Path
    name: str
    value: int
    line: int

    @property
    def spelling(self) -> str:
        own = Path.cwd()
        return f"{VALUE}{self.file.relative_to(own) if self.file.is_relative_to(own) else self.file}:{self.name}"

    def means(self, wheel: str) -> bool:
        return wheel_names.meaning(last(self.spelling)) == wheel

    def __str__(self) -> str:
        return f"{self.file.name} line {self.line}: {self.name} = {self.value}"


def of_files(files: Iterable[Path]) -> list[Place]:
    """Finds the whole numbers above 0 that are written in Python sources."""
    trees = ((file, parsed(file)[1]) for file in map(Path, map(os.path.abspath, files)))
    found = ((file, name, node) for file, tree in trees if tree is not None for name, node in bindings(tree.body))
    return [Place(file, name, node.value, node.lineno) for file, name, node in found if is_count(node.value)]


def orders(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """Makes ``native/values.py``'s orders: file, name, what it is, what it shall be. Both by the spelling without its ``value:``."""
    said = [(*spelling.partition(":")[::2], spelling) for spelling in wanted]
    return [(os.path.abspath(file), name, given[spelling], wanted[spelling]) for file, name, spelling in said]


def beliefs(batch: Place, files: Iterable[Path]) -> dict[str, Belief]:
    """Makes the beliefs of the value that a person names as the batch size; and of the accumulation, if one number of that name is written
    beside it, or anywhere: both are turned then, as they are bound."""
    all_of_them = [one for one in of_files(files) if one.means("accumulation")]
    beside = [one for one in all_of_them if (one.file, _LAST.sub("", one.name)) == (batch.file, _LAST.sub("", batch.name))]
    steps = beside or all_of_them
    found = {"micro_batch": batch}
    if len(steps) == 1 and steps[0].value > 1:  # a script that steps after every batch keeps what it works out of its batch
        found["accumulation"] = steps[0]
    return {wheel: Belief(wheel=wheel, value=one.value, spelling=one.spelling, source=str(one)) for wheel, one in found.items()}


def works_out_accumulation(files: Sequence[Path]) -> bool:
    """Tells whether the script divides a whole batch to know how many micro-batches a step takes: ``accum_steps = TOTAL // (BATCH *
    LENGTH)``. Its trials show how many they are."""
    return any(_divides(node) for file in files for node in ast.walk(parsed(file)[1] or ast.Module([], [])))


def _divides(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    named = any(wheel_names.meaning(last(f"{VALUE}{ast.unparse(target)}")) == "accumulation" for target in targets)
    value = getattr(node, "value", None)
    return named and value is not None and any(isinstance(one, (ast.Div, ast.FloorDiv)) for one in ast.walk(value))


def pointed(script: Path | None, said: str) -> Place:
    """The value that ``--set`` names, behind the path of another file (``settings.py:BATCH``). Raises BadInput if there isn't just one."""
    file, _, name = said.rpartition(":") if re.match(r"[^:]*\.py:", said) else ("", "", said)
    if file and not Path(file).is_file():
        raise BadInput([Fault(key=PLACE, found=f"--set {said}: there is no file {file}", cure="Give its path from here.")])
    places = of_files([Path(file)] if file else files_of(script) if script is not None else [])
    found = [one for one in places if one.name.replace('"', "'") == name.strip().replace('"', "'")]
    if len(found) == 1:
        return found[0]
    if found:
        cure = f"Name one of its own: {'; '.join(map(str, found[:MOST_TOLD]))}."
        raise BadInput([Fault(key=PLACE, found=f"--set {said}: it stands in {len(found)} places", cure=cure)])
    could = "; ".join(str(one) for one in places if one.means("micro_batch"))
    near = f"Say one of these: {could}. " if could else did_you_mean(name, [one.name for one in places])
    form = "A value is named as the source does: CONFIG['batch'], Config.batch_size, BATCH, or settings.py:BATCH of another file"
    raise BadInput([Fault(key=PLACE, found=f"--set {said}: no whole number of that name is written in the source", cure=f"{near}{form}.")])
