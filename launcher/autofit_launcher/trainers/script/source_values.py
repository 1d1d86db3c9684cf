"""Plain values of a script's own, by name: ``value:train.py:CONFIG['batch']``. Found in its source, set as it binds them. Nothing is run.

A spelling is the file and the name as ``native/bindings.py`` has it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofit_launcher.adapter import wheel_names
from autofit_launcher.adapter.python_source import files_of, parsed
from autofit_launcher.adapter.recognised import Belief
from autofit_launcher.errors import PLACE, BadInput, Fault, did_you_mean
from autofit_launcher.trainers.script.candidates import is_count
from autofit_launcher.trainers.script.native.bindings import bindings, spelled
from autofit_launcher.trainers.script.spelling import VALUE
from autofit_launcher.trainers.script.spelling import name as last

_LAST = re.compile(r"(\[[^\[\]]*\]|\.\w+)$")
MOST_TOLD = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A value of a script's source."""

    file: Path
    name: str
    value: Any
    line: int

    @property
    def spelling(self) -> str:
        own = Path.cwd()
        return f"{VALUE}{self.file.relative_to(own) if self.file.is_relative_to(own) else self.file}:{self.name}"

    @property
    def held_in(self) -> str:
        """The name of which the value is an entry or attribute; empty if it is none's."""
        return _LAST.sub("", self.name) if _LAST.search(self.name) else ""

    def __str__(self) -> str:
        return f"{self.file.name} line {self.line}: {self.name} = {self.value}"


def of_files(files: Iterable[Path]) -> list[Place]:
    """Finds the whole numbers above 0 that are written in Python sources."""
    found = []
    for file in map(Path, map(os.path.abspath, files)):
        _, tree = parsed(file)
        values = bindings(tree) if tree is not None else []
        found += [Place(file=file, name=one.name, value=one.value, line=one.node.lineno) for one in values if is_count(one.value)]
    return found


def orders(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """Makes ``native/values.py``'s orders: file, name, what it is, what it shall be. Both by the spelling without its ``value:``."""
    said = [(*spelling.partition(":")[::2], spelling) for spelling in wanted]
    return [(os.path.abspath(file), name, given[spelling], wanted[spelling]) for file, name, spelling in said]


def beliefs(batch: Place, files: Iterable[Path]) -> dict[str, Belief]:
    """Makes the beliefs of the value that a person names as the batch size; and of the accumulation, if one number of that name is written
    beside it, or anywhere: both are turned then, as they are bound."""
    all_of_them = [one for one in of_files(files) if wheel_names.meaning(last(one.spelling)) == "accumulation"]
    beside = [one for one in all_of_them if (one.file, one.held_in) == (batch.file, batch.held_in)]
    steps = beside or all_of_them
    found = {"micro_batch": batch}
    if len(steps) == 1 and steps[0].value > 1:  # a script that steps after every batch keeps what it works out of its batch
        found["accumulation"] = steps[0]
    return {wheel: Belief(wheel=wheel, value=one.value, spelling=one.spelling, source=str(one)) for wheel, one in found.items()}


def lengths(batch: Place) -> dict[str, int]:
    """Spelling -> how long it trains, by a value that is kept with the batch size."""
    counts = [one for one in of_files([batch.file]) if one.held_in == batch.held_in and wheel_names.counts_length(last(one.spelling))]
    return {counts[0].spelling: counts[0].value} if len(counts) == 1 else {}


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
    """The value that ``--set`` names. Raises BadInput where there is none of that name, or several."""
    file, name = _file_of(said)
    places = of_files([file] if file is not None else files_of(script) if script is not None else [])
    wanted = spelled(name)
    found = [one for one in places if one.name in (name, wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        cure = f"Name one of its own: {'; '.join(map(str, found[:MOST_TOLD]))}."
        raise BadInput([Fault(key=PLACE, found=f"--set {said}: it stands in {len(found)} places", cure=cure)])
    could = "; ".join(str(one) for one in places if wheel_names.meaning(last(one.spelling)) == "micro_batch")
    near = f"Say one of these: {could}. " if could else did_you_mean(wanted, [one.name for one in places])
    form = "A value is named as the source does: CONFIG['batch'], Config.batch_size, BATCH, or settings.py:BATCH of another file"
    raise BadInput([Fault(key=PLACE, found=f"--set {said}: no whole number of that name is written in the source", cure=f"{near}{form}.")])


def _file_of(said: str) -> tuple[Path | None, str]:
    """Splits ``settings.py:CONFIG['batch']``; without a file it is a name of the source."""
    file, colon, name = said.partition(":")
    known = colon and file.endswith(".py")
    if known and not Path(file).is_file():
        raise BadInput([Fault(key=PLACE, found=f"--set {said}: there is no file {file}", cure="Give its path from here.")])
    return (Path(file), name) if known else (None, said)
