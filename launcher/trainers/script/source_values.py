"""Plain values of a script's own, by name: ``value:train.py:CONFIG['batch']``. Found in its source, set as it binds them. Nothing is run.

A spelling is the file and the name as ``native/bindings.py`` has it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.adapter import wheel_names
from launcher.adapter.python_source import Constants, files_of, parsed
from launcher.adapter.python_source import place as written
from launcher.adapter.recognised import Belief
from launcher.errors import PLACE, BadInput, Fault, did_you_mean
from launcher.trainers.script.batches import is_count
from launcher.trainers.script.native.bindings import bindings, spelled
from launcher.trainers.script.spelling import VALUE

_BESIDE = ("accumulation", "val_micro_batch", "checkpointing", "segment", "sequence_length", "image_size")
_LAST = re.compile(r"(\[[^\[\]]*\]|\.\w+|\(\w+\))$")
MOST_TOLD = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One value."""

    file: Path
    name: str
    value: Any
    line: int = 0
    column: int = -1

    @property
    def spelling(self) -> str:
        return f"{VALUE}:{short(self.file)}:{self.name}"

    @property
    def last(self) -> str:
        return last(self.name)

    @property
    def held_in(self) -> str:
        """What it is an entry or attribute of."""
        return _LAST.sub("", self.name) if _LAST.search(self.name) else ""

    def __str__(self) -> str:
        return f"{written(self.file, self.line)}: {self.name} = {self.value}"

    def belief(self, wheel: str, more: str = "") -> Belief:
        return Belief(wheel=wheel, value=self.value, spelling=self.spelling, source=f"{self}{more}")


def last(name: str) -> str:
    """The last part of a name: what a value is called."""
    return next(iter(reversed(re.findall(r"\w+", name))), "")


def short(file: Path) -> str:
    own = Path.cwd()
    return str(file.relative_to(own)) if file.is_relative_to(own) else str(file)


def of_file(file: Path) -> list[Place]:
    """Every plain value of a Python source."""
    file = Path(os.path.abspath(file))
    _, tree = parsed(file)
    found = bindings(tree) if tree is not None else []
    return [Place(file=file, name=one.name, value=one.value, line=one.node.lineno, column=one.node.col_offset) for one in found]


def orders(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """For ``native/values.py``: file, name, what it is, what it shall be. Both by the spelling without its ``value:``."""
    said = [(*spelling.partition(":")[::2], spelling) for spelling in wanted]
    return [(os.path.abspath(file), name, given[spelling], wanted[spelling]) for file, name, spelling in said]


def at(marks: Iterable[str]) -> list[Place]:
    """The values that stand where marked numbers did: ``/a/train.py:37:15``."""
    found = []
    for mark in marks:
        path, line, column = mark.rsplit(":", 2)
        found += [one for one in of_file(Path(path)) if (one.line, one.column) == (int(line), int(column))]
    return found


def beside(place: Place, script: Path) -> Mapping[str, Place]:
    """Wheel -> a value that is kept with this one and means it by its usual name: ``CONFIG['image_size']``.

    Accumulation also where it is the only one of the script's (``Accelerator(gradient_accumulation_steps=4)``), and where there is some:
    a script that steps after every batch is accumulated from outside, by which what it works out of its batch size stays.
    """
    others = [one for one in _kept_with(place) if one.name != place.name]
    found: dict[str, Place] = {}
    for wheel in _BESIDE:
        named = [one for one in others if wheel_names.usual(one.last) == wheel and _stands(wheel, one.value)]
        if len(named) == 1:
            found[wheel] = named[0]
    anywhere = _accumulations(files_of(script))
    found = {"accumulation": anywhere[0], **found} if len(anywhere) == 1 else found
    return {wheel: one for wheel, one in found.items() if wheel != "accumulation" or one.value > 1}


def line_of(mark: str) -> str:
    """Where a marked number stands, in words."""
    file, line, _ = mark.rsplit(":", 2)
    return written(Path(file), int(line))


def _kept_with(place: Place) -> list[Place]:
    """The values of the same dict, class or file; none that a loop binds anew: a sample's length in the steps of a training is no setting
    of it."""
    loops = _loops(place.file)
    around = {loop for loop in loops if place.line in loop}
    others = [one for one in of_file(place.file) if one.held_in == place.held_in]
    return [one for one in others if all(loop in around for loop in loops if one.line in loop)]


def _loops(file: Path) -> list[range]:
    """The lines of each loop."""
    _, tree = parsed(file)
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.AsyncFor, ast.While))] if tree is not None else []
    return [range(loop.lineno, (loop.end_lineno or loop.lineno) + 1) for loop in loops]


def _stands(wheel: str, value: Any) -> bool:
    return isinstance(value, bool) if wheel == "checkpointing" else is_count(value)


def lengths(place: Place) -> dict[str, int]:
    """Spelling -> how long it trains, by a value that is kept with this one."""
    counts = [one for one in _kept_with(place) if _is_length(one)]
    return {counts[0].spelling: int(counts[0].value)} if len(counts) == 1 else {}


def _is_length(one: Place) -> bool:
    return is_count(one.value) and (wheel_names.counts_steps(one.last) or wheel_names.counts_passes(one.last))


def bound(file: Path, name: str, value: int) -> Place | None:
    """The one value of this name in a source."""
    found = [one for one in of_file(file) if one.name == name and one.value == value]
    return found[0] if len(found) == 1 else None


def of_one_call(script: Path) -> tuple[Place, Place] | None:
    """The batch and the accumulation that the source gives to one call of a library's: ``model.train(batch_size=4, grad_accum_steps=4)``.
    None where it gives them to none, or to several."""
    trees = [(file, tree) for file in files_of(script) if (tree := parsed(file)[1]) is not None]
    found = [both for file, tree in trees for both in _given_together(file, tree)]
    return found[0] if len(found) == 1 else None


def _given_together(file: Path, tree: ast.Module) -> Iterator[tuple[Place, Place]]:
    known = Constants(tree)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        given: dict[str, Place] = {}
        for keyword in call.keywords:
            wheel, value = wheel_names.meaning(keyword.arg or ""), known.value(keyword.value)
            own = isinstance(keyword.value, ast.Constant)
            name = f"{ast.unparse(call.func)}({keyword.arg})" if own else ast.unparse(keyword.value)
            if wheel in ("micro_batch", "accumulation") and _stands(wheel, value) and (place := bound(file, name, value)) is not None:
                given[wheel] = place
        if len(given) == 2:
            yield given["micro_batch"], given["accumulation"]


def accumulates(files: Iterable[Path]) -> bool:
    """Whether something in the sources is called accumulation, and is a number."""
    return bool(_accumulations(files))


def _accumulations(files: Iterable[Path]) -> list[Place]:
    return [one for one in _places(files) if wheel_names.usual(one.last) == "accumulation" and _stands("accumulation", one.value)]


# ----------------------------------------------------------------------------------------------------------------------
# What a person names


def pointed(script: Path | None, said: str) -> Place:
    """The value that ``--set`` names. Raises BadInput where there is none of that name, or several."""
    file, name = _file_of(said)
    places = list(_places([file] if file is not None else files_of(script) if script is not None else []))
    wanted = spelled(name)
    found = [one for one in places if one.name in (name, wanted) and _stands("micro_batch", one.value)]
    if len(found) == 1:
        return found[0]
    if found:
        cure = f"Name one of its own: {'; '.join(map(str, found[:MOST_TOLD]))}."
        raise BadInput([Fault(key=PLACE, found=f"--set {said}: it stands in {len(found)} places", cure=cure)])
    could = "; ".join(map(str, _batches(places)))
    near = f"Say one of these: {could}. " if could else did_you_mean(wanted, [one.name for one in places])
    form = "A value is named as the source does: CONFIG['batch'], Config.batch_size, BATCH, or settings.py:BATCH of another file"
    raise BadInput([Fault(key=PLACE, found=f"--set {said}: no whole number of that name is written in the source", cure=f"{near}{form}.")])


def likely(script: Path) -> list[Place]:
    """What could be the batch size by its name; a 1 comes last, since it is a validation's more often than a training's."""
    return sorted(_batches(_places(files_of(script))), key=lambda one: bool(one.value == 1))


def _batches(places: Iterable[Place]) -> list[Place]:
    return [one for one in places if wheel_names.meaning(one.last) == "micro_batch" and _stands("micro_batch", one.value)][:MOST_TOLD]


def _file_of(said: str) -> tuple[Path | None, str]:
    """``settings.py:CONFIG['batch']``; without a file, a name of the source."""
    file, colon, name = said.partition(":")
    known = colon and file.endswith(".py")
    if known and not Path(file).is_file():
        raise BadInput([Fault(key=PLACE, found=f"--set {said}: there is no file {file}", cure="Give its path from here.")])
    return (Path(file), name) if known else (None, said)


def _places(files: Iterable[Path]) -> Iterator[Place]:
    for file in files:
        yield from of_file(file)
