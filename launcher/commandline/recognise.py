"""Words of a command -> which trainer it is, and what each of its settings is believed to mean."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.commandline import flags
from launcher.errors import BadInput, Fault
from launcher.trainers.script import configs

KEY = "command line after --"


@dataclass(frozen=True, kw_only=True, slots=True)
class Belief:
    """One setting, and what it is taken for."""

    wheel: str
    value: Any
    spelling: str
    source: str
    """Where the value was found, in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Understood:
    """A command, understood as far as it goes."""

    adapter: str
    words: tuple[str, ...]
    beliefs: tuple[Belief, ...] = ()
    config: str | None = None
    doubts: tuple[str, ...] = ()
    """What could mean two things, or nothing known; in words for people."""
    ask: dict[str, Any] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    """For a trainer with an adapter of its own: its native arguments."""
    data: str | None = None
    task: str | None = None


def understand(words: Sequence[str]) -> Understood:
    """What the command is. Raises BadInput where it trains nothing that autofit could know."""
    if not words:
        raise BadInput([Fault(key=KEY, found="there is no command", cure="For example: autofit run -- python train.py --batch-size 64.")])
    program = Path(words[0]).name
    if program in ("yolo", "ultralytics"):
        return _yolo(words)
    return _script(words)


# ----------------------------------------------------------------------------------------------------------------------
# yolo


_TASKS = ("detect", "segment", "classify", "pose", "obb", "semantic", "depth")
_MODES = ("train", "val", "predict", "export", "track", "benchmark")


def _yolo(words: Sequence[str]) -> Understood:
    """As Ultralytics' own command line reads it (cfg/__init__.py: merge_equals_args, key=value, bare task and mode words)."""
    pairs: dict[str, Any] = {}
    task, mode = None, None
    for word in _merged(words[1:]):
        key, equals, value = word.lstrip("-").rstrip(",").partition("=")
        if equals:
            pairs[key] = value if key in ("name", "project") else _smart(value)
        elif key in _TASKS:
            task = key
        elif key in _MODES:
            mode = key
        elif re.fullmatch(r"[a-z_]+", key):
            pairs[key] = True
        else:
            raise BadInput([Fault(key=KEY, found=f"{word!r} is no argument of yolo", cure="Arguments are key=value, as in epochs=100.")])
    mode = pairs.pop("mode", mode) or "train"
    task = pairs.pop("task", task)
    if mode != "train":
        raise BadInput([Fault(key=KEY, found=f"yolo {mode} trains nothing", cure="autofit fits trainings: yolo detect train ...")])
    ask: dict[str, Any] = {"model": pairs.pop("model", "yolo26n.pt"), "micro_batch": 16, "image_size": 640, "checkpointing": False}
    beliefs = [Belief(wheel="model", value=ask["model"], spelling="model=", source="yolo")]
    for key, wheel in (("batch", "micro_batch"), ("imgsz", "image_size"), ("multi_scale", "multi_scale")):
        if key in pairs:
            ask[wheel] = pairs.pop(key)
        if wheel in ask:
            beliefs.append(Belief(wheel=wheel, value=ask[wheel], spelling=f"{key}=", source="yolo"))
    if isinstance(ask["micro_batch"], float) or ask["micro_batch"] == -1:
        raise BadInput(
            [Fault(key=KEY, found=f"batch={ask['micro_batch']} is Ultralytics' own guess", cure="Say the batch you want: batch=64.")]
        )
    data = pairs.pop("data", None)
    pairs.pop("device", None)
    return Understood(adapter="ultralytics", words=tuple(words), beliefs=tuple(beliefs), ask=ask, args=pairs, data=data, task=task)


def _merged(words: Sequence[str]) -> Iterator[str]:
    """``a = b``, ``a= b`` and ``a =b`` as one word."""
    text = "\0".join(words)
    yield from re.sub(r"\0?=\0?", "=", text).split("\0") if text else ()


def _smart(value: str) -> Any:
    lowered = value.lower()
    if lowered in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[lowered]
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


# ----------------------------------------------------------------------------------------------------------------------
# any script


def script_of(words: Sequence[str]) -> Path | None:
    """The script among the words."""
    return next((Path(word) for word in words if word.endswith(".py") and not word.startswith("-")), None)


def _script(words: Sequence[str]) -> Understood:
    script = script_of(words)
    if script is not None and not script.is_file():
        raise BadInput([Fault(key=KEY, found=f"there is no script {script} in {Path.cwd()}", cure="Give its path.")])
    begin = next((at for at, word in enumerate(words) if script is not None and word == str(script)), 0)
    config = configs.named(words[begin + 1 :])  # what stands before the script is its launcher's
    source = str(script) if script is not None else ""
    candidates = [*_on_the_line(words, script), *_in_config(config), *_declared(words, script)]
    beliefs: dict[str, Belief] = {}
    doubts = []
    for wheel in flags.NAMES:
        found = [belief for belief in candidates if belief.wheel == wheel]
        if not found:
            continue
        best = [belief for belief in found if _rank(belief) == _rank(found[0])]
        if len({belief.spelling for belief in best}) > 1:
            said = " or ".join(f"{belief.spelling} ({belief.value})" for belief in best)
            doubts.append(f"{wheel} could be {said}: say trainer.args.spelled.{wheel}=SPELLING ask.{wheel}=VALUE before --")
            continue
        beliefs[wheel] = best[0]
    if "micro_batch" not in beliefs and not any(doubt.startswith("micro_batch") for doubt in doubts):
        doubts.append(
            f"nothing in the command{', its config' if config else ''}{' or ' + source if source else ''} looks like a batch size: "
            "say which, as in autofit run ask.micro_batch=16 trainer.args.spelled.micro_batch=--my-batch "
            "trainer.args.spelled.accumulation=--my-accum -- ..."
        )
    return Understood(adapter="script", words=tuple(words), beliefs=tuple(beliefs.values()), config=config, doubts=tuple(doubts))


def _rank(belief: Belief) -> int:
    return {"command line": 0}.get(belief.source, 1 if belief.spelling.startswith("config:") else 2)


def _on_the_line(words: Sequence[str], script: Path | None) -> Iterator[Belief]:
    """Settings that the command itself says."""
    declared = {flag.spelling.removeprefix("switch:").split("/")[0]: flag for flag in (flags.of_source(script) if script else [])}
    begin = next((at + 1 for at, word in enumerate(words) if script is not None and word == str(script)), 1)
    for at, word in enumerate(words[begin:], start=begin):
        name, equals, value = word.partition("=")
        wheel = flags.meaning(name.rsplit(".", 1)[-1])
        if wheel is None:
            wheel = flags.meaning(declared[name].spelling) if name in declared else None
        if wheel is None or not (name.startswith("-") or equals):
            continue
        switch = declared.get(name)
        if not equals and (switch is not None and switch.spelling.startswith("switch:")):
            yield Belief(wheel=wheel, value=True, spelling=switch.spelling, source="command line")
        elif equals:
            yield Belief(wheel=wheel, value=_smart(value), spelling=f"{name.lstrip('+')}=", source="command line")
        elif at + 1 < len(words) and not words[at + 1].startswith("--"):
            yield Belief(wheel=wheel, value=_smart(words[at + 1]), spelling=name, source="command line")


_ELSEWHERE = re.compile(r"(^|[._])(val|valid|validation|eval|evaluation|test|infer|inference|predict)([._]|$)")


def _in_config(config: str | None) -> Iterator[Belief]:
    """Keys of the configuration file. One of a validation section means the validation's batch."""
    if config is None or not Path(config).is_file():
        return
    path = Path(config)
    try:
        held = configs.load(path.read_text(encoding="utf-8"), path.suffix)
    except ValueError:
        return
    for key, value in configs.leaves(held):
        wheel = flags.meaning(key.rsplit(".", 1)[-1])
        if wheel == "micro_batch" and _ELSEWHERE.search(key):
            wheel = "val_micro_batch"
        elif wheel is not None and wheel != "val_micro_batch" and _ELSEWHERE.search(key):
            wheel = None
        if wheel is not None and isinstance(value, (bool, int, float)):
            yield Belief(wheel=wheel, value=value, spelling=f"config:{key}", source=str(path))


def _declared(words: Sequence[str], script: Path | None) -> Iterator[Belief]:
    """Flags that the script has, at their defaults."""
    if script is None:
        return
    for flag in flags.of_source(script):
        name = flag.spelling.removeprefix("switch:").split("/")[0].rstrip("=")
        wheel = flags.meaning(name)
        if wheel is not None and flag.default is not None and isinstance(flag.default, (bool, int, float)):
            yield Belief(wheel=wheel, value=flag.default, spelling=flag.spelling, source=f"{flag.where}'s default")


def refuse_doubts(understood: Understood, *, overrides: Sequence[str]) -> None:
    """Raises BadInput where the batch is not known and ``overrides`` don't say it either: nothing could be tried."""
    doubts = [doubt for doubt in understood.doubts if doubt.startswith(("micro_batch", "nothing"))]
    if doubts and not any(word.lstrip("+").startswith("ask.micro_batch=") for word in overrides):
        raise BadInput([Fault(key=KEY, found="it isn't clear what its settings mean", cure=f"{doubt}.") for doubt in doubts])


def as_text(value: Any) -> str:
    """A value as YAML and Hydra both read it."""
    return json.dumps(value, ensure_ascii=False)


def name_of(understood: Understood) -> str:
    """A name for the run folder."""
    script = script_of(understood.words)
    stem = script.stem if script is not None else Path(understood.words[0]).name
    return re.sub(r"[^\w.-]+", "_", f"{stem}" if stem != "__main__" else os.path.basename(os.getcwd()))
