"""Finds what each place of a command says of its settings (words, configuration files, script's defaults), and which place counts.

Flags are found where the script declares them, by argparse or click, or as names that a configurator as nanoGPT's sets. Nothing is run:
what others declare the command says, or the first trial shows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from autofit_launcher.adapter import wheel_names
from autofit_launcher.adapter.python_source import files_of, parsed
from autofit_launcher.adapter.recognised import Belief, typed
from autofit_launcher.errors import PLACE, did_you_mean, refusal
from autofit_launcher.trainers.script import configs
from autofit_launcher.trainers.script.native.values import bindings
from autofit_launcher.trainers.script.spelling import VALUE, name

COMMAND_LINE = "command line"
"""The source of a belief that the command itself says."""
WHOLE = "whole_batch"
"""The meaning of a candidate that says the batch of an optimizer step; no wheel."""
HOW_LONG = "how_long"
"""The meaning of a candidate that says how long training is, in steps or passes; no wheel."""
LENGTHS = ("segment", "sequence_length", "image_size")


def believed(candidates: Sequence[Belief]) -> tuple[dict[str, Belief], list[str]]:
    """Picks for each wheel the candidate from the most telling place; names the wheels of which that place says two things."""
    beliefs: dict[str, Belief] = {}
    unclear = []
    for wheel in (*wheel_names.NAMES, WHOLE):
        found = [belief for belief in candidates if belief.wheel == wheel]
        best = [belief for belief in found if _rank(belief) == min(map(_rank, found))]
        if len({belief.spelling for belief in best}) > 1:
            unclear.append(wheel)
        elif best:
            beliefs[wheel] = best[-1 if best[0].source == COMMAND_LINE else 0]  # a word that is said twice means what it says last
    return beliefs, unclear


def _rank(belief: Belief) -> int:
    return 0 if belief.source == COMMAND_LINE else 2 if belief.source.endswith("'s default") else 1


def in_parts(candidates: Sequence[Belief]) -> list[Belief]:
    """The candidates with whole and part told apart: a plain batch size beside one that is a part of it (``--micro_batch_size``) is the
    whole, and a plain one beside a whole (``--total-batch-size``) the part. A whole alone is each process's own."""
    batches = [one for one in candidates if one.wheel in ("micro_batch", WHOLE)]
    parts = [one for one in batches if one.wheel != WHOLE and wheel_names.part(name(one.spelling))]
    wholes = [one for one in batches if one.wheel == WHOLE]
    if parts and not wholes:
        return [replace(one, wheel=WHOLE) if one in batches and one not in parts else one for one in candidates]
    if wholes and len(wholes) == len(batches):
        return [replace(one, wheel="micro_batch") if one in wholes else one for one in candidates]
    return list(candidates)


def counted_out(candidates: Sequence[Belief]) -> dict[str, int]:
    """Spelling -> how long training is, wherever it is said. A word of the command counts in the place of its default."""
    said = [one for one in candidates if one.wheel == HOW_LONG]
    words = {one.spelling.rstrip("=") for one in said if one.source == COMMAND_LINE}
    counts = {one.spelling: one.value for one in said if one.source == COMMAND_LINE or one.spelling.rstrip("=") not in words}
    return {one: int(value) for one, value in counts.items() if type(value) in (int, float) and value > 0 and value == int(value)}


def is_count(value: Any) -> TypeGuard[int]:
    """Tells whether it is a whole number above 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


# ---- places

_ELSEWHERE = re.compile(r"(^|[._])(val|valid|validation|eval|evaluation|test|infer|inference|predict)([._]|$)")


def _meaning(key: str) -> str | None:
    """The wheel that a flag or key means by its last name, the whole batch, or how long training is. In a section of validation the batch
    is the validation's, and the rest is nothing."""
    last = name(key)
    wheel = WHOLE if wheel_names.whole(last) else HOW_LONG if wheel_names.counts_length(last) else wheel_names.meaning(last)
    if wheel is None or wheel == "val_micro_batch" or key.startswith("-") or not _ELSEWHERE.search(key.lower().lstrip("+")):
        return wheel
    return "val_micro_batch" if wheel in ("micro_batch", WHOLE) else None


class Flag(NamedTuple):
    """A setting that a script understands."""

    spelling: str
    default: Any
    file: str
    names: Sequence[str]
    """The names that it goes by, such as -b beside --batch-size; first the one that tells most."""


def on_the_line(words: Sequence[str], begin: int, declared: Sequence[Flag]) -> Iterator[Belief]:
    """Settings that the command itself says."""
    known = {said: flag for flag in declared for said in flag.names}
    for at, word in enumerate(words[begin:], start=begin):
        said, equals, value = word.partition("=")
        flag = known.get(said)
        wheel = _meaning(said) or (_meaning(flag.names[0]) if flag is not None else None)
        if wheel is None or not (said.startswith("-") or equals):
            continue
        if equals:
            yield Belief(wheel=wheel, value=typed(value), spelling=f"{said.lstrip('+')}=", source=COMMAND_LINE)
        elif flag is not None and flag.spelling.startswith("switch:"):
            yield Belief(wheel=wheel, value=True, spelling=flag.spelling, source=COMMAND_LINE)
        elif at + 1 < len(words) and not words[at + 1].startswith("--"):
            yield Belief(wheel=wheel, value=typed(words[at + 1]), spelling=said, source=COMMAND_LINE)


def in_config(held: Any, path: str | None) -> Iterator[Belief]:
    """Keys of the configuration file."""
    for key, value in configs.leaves(held):
        wheel = _meaning(key) if len(name(key)) > 1 else None  # -b is a flag; a key B is some model's
        number = isinstance(value, (int, float)) and not (isinstance(value, bool) and wheel in LENGTHS)  # ``pad_to_sequence_len: false``
        if wheel is not None and number:
            yield Belief(wheel=wheel, value=value, spelling=f"config:{key}", source=str(path))


def defaults(declared: Sequence[Flag]) -> Iterator[Belief]:
    """Flags that the script has, at their defaults."""
    for flag in declared:
        wheel = _meaning(flag.names[0])
        if wheel is not None and isinstance(flag.default, (bool, int, float)):
            yield Belief(wheel=wheel, value=flag.default, spelling=flag.spelling, source=f"{flag.file}'s default")


# ---- what a script declares


def declared(script: Path, words: Sequence[str]) -> list[Flag]:
    """Finds what the script declares; or the modules that it imports, if it has no parser of its own (``from options import get_args``).
    Files in Python among the command's ``words`` are what a configurator runs over the script's own names."""
    found = _of_source(script) or [flag for file in files_of(script)[1:] for flag in _of_source(file)]
    files = [Path(word) for word in words if word.endswith(".py") and Path(word).is_file()]
    said = {f"--{key}=": value for file in files for key, value in _numbers(parsed(file)[1]).items()}
    return [flag._replace(default=said.get(flag.spelling, flag.default)) for flag in found]


def _of_source(path: Path) -> list[Flag]:
    source, tree = parsed(path)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    found = [flag for call in calls if (flag := _of_call(call, path.name)) is not None]
    if "configurator.py" in source or re.search(r"\bfor \w+ in sys\.argv\[1:\]", source):  # as nanoGPT's sets the script's own names
        found += [Flag(f"--{key}=", value, path.name, [f"--{key}"]) for key, value in _numbers(tree).items()]
    return found


def _of_call(call: ast.Call, file: str) -> Flag | None:
    """The flag that a call declares: argparse's or click's; None where it declares none."""
    function = getattr(call.func, "attr", getattr(call.func, "id", ""))
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and arg.value.startswith("-")]
    if function not in ("add_argument", "option") or not names:
        return None
    names = sorted((one for name in names for one in name.split("/")[:1]), key=len, reverse=True)
    said = {keyword.arg: keyword.value for keyword in call.keywords}
    action, default = ast.unparse(said["action"]) if "action" in said else "", None
    with suppress(ValueError, KeyError):
        default = ast.literal_eval(said["default"])
    if "store_true" in action or "is_flag" in said:
        return Flag(f"switch:{names[0]}", False, file, names)
    if "BooleanOptionalAction" in action:
        return Flag(f"switch:{names[0]}/--no-{names[0].lstrip('-')}", default, file, names)
    return Flag(names[0], default, file, names)


def _numbers(tree: ast.Module | None) -> dict[str, Any]:
    """Name -> number of the assignments at the top of a file: ``batch_size = 12``."""
    found = {}
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and (value := _number(node.value)) is not None:
            found[node.targets[0].id] = value
    return found


def _number(node: ast.expr) -> Any:
    """A literal, or a product of whole numbers such as ``5 * 8``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return left * right if isinstance(left, int) and isinstance(right, int) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)) else None


# ---- values of the script that a person names: ``--set``, which is spelled ``value:CONFIG['batch']``

_LAST = re.compile(r"(\[[^\[\]]*\]|\.\w+|^\w+)$")
"""Entry or attribute that a name ends with: what is left of it holds the value."""


def _values(script: Path) -> list[Belief]:
    """Finds the whole numbers above 0 that are written in a script, each as the wheel that its name means."""
    _, tree = parsed(script)
    found = [(one, node.value, f"{script.name} line {node.lineno}") for one, node in bindings(tree.body if tree is not None else ())]
    return [
        Belief(wheel=wheel_names.meaning(name(VALUE + one)) or "", value=value, spelling=VALUE + one, source=f"{where}: {one} = {value}")
        for one, value, where in found if is_count(value)
    ]  # fmt: skip


def pointed(words: Sequence[str], script: Path | None, said: str) -> dict[str, Belief]:
    """Makes the beliefs of the value that a person names as the batch size (``--set``); and of the accumulation, if one number of that
    name is written beside it, or anywhere in the script: both are turned then, as they are bound. Raises BadInput where there isn't just
    one such value in the file that the command names."""
    if script is None or str(script) not in words:
        raise refusal(f"--set {said}: the command names no file of a script", "Start it as python train.py.", key=PLACE)
    written = _values(script)
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
        cure = f"Name one of its own: {'; '.join(one.source for one in found)}."
        raise refusal(f"--set {said}: it stands in {len(found)} places", cure, key=PLACE)
    could = "; ".join(one.source for one in written if one.wheel == "micro_batch")
    near = f"Say one of these: {could}. " if could else did_you_mean(said, [one.spelling.removeprefix(VALUE) for one in written])
    cure = f"{near}A value is named as the source does: CONFIG['batch'], Config.batch_size, BATCH."
    raise refusal(f"--set {said}: no whole number of that name is written in {script}", cure, key=PLACE)


def works_out_accumulation(files: Sequence[Path]) -> bool:
    """Tells whether the script divides a whole batch to know how many micro-batches a step takes: ``accum_steps = TOTAL // (BATCH *
    LENGTH)``. Its trials show how many they are."""
    return any(_divides(node) for file in files for node in ast.walk(parsed(file)[1] or ast.Module([], [])))


def _divides(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    named = any(wheel_names.meaning(name(f"{VALUE}{ast.unparse(target)}")) == "accumulation" for target in targets)
    value = getattr(node, "value", None)
    return named and value is not None and any(isinstance(one, (ast.Div, ast.FloorDiv)) for one in ast.walk(value))
