"""Reads what a command asks of Ultralytics: words of ``yolo detect train ...``, or what arrives at ``model.train`` in a person's script.

A script is run up to its training (``inside.look``): what it computes, parses and loads is its own affair.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from autofit_launcher.adapter.commands import script_among
from autofit_launcher.adapter.python_source import files_of
from autofit_launcher.adapter.recognised import Belief, Understood, typed
from autofit_launcher.common import interpreter
from autofit_launcher.errors import PLACE, refusal
from autofit_launcher.machine import process
from autofit_launcher.trainers.ultralytics import arguments, environment

LONGEST_S = 300.0
"""So long may a script take to its training, imports included."""
_LOOK = "autofit_launcher.trainers.ultralytics.inside.look"
_TASKS = ("detect", "segment", "classify", "pose", "obb", "semantic", "depth")
_MODES = ("train", "val", "predict", "export", "track", "benchmark")
_ALL_CARDS = re.compile(r"(?:cuda:)?\d+(?:,(?:cuda:)?\d+)*")
_USES = re.compile(r"^\s*(from|import) ultralytics\b", re.MULTILINE)
_TRAINS = re.compile(r"\.(train|tune)\(\s*(\*\*|(?!mode\b)\w+\s*=)|(YOLO|RTDETR)\([^()]*\)\.train\(")
_WHEELS = {"model": "model", "batch": "micro_batch", "imgsz": "image_size", "multi_scale": "multi_scale"}
_ELSEWHERE = (*_WHEELS, "data", "device")

_refused = partial(refusal, key=PLACE)


def understand(words: Sequence[str]) -> Understood | None:
    """Reads what a ``yolo`` command or a script that trains with Ultralytics asks for; None for another program.

    Raises BadInput where it trains nothing, or can't be followed.
    """
    if Path(words[0]).name in ("yolo", "ultralytics"):
        pairs, task, mode = _read(words[1:])
        if mode != "train":
            raise _refused(f"yolo {mode} trains nothing", "autofit fits trainings: yolo detect train ...")
        asked = {"model": "yolo26n.pt", "batch": 16, "imgsz": 640, **pairs, "task": task}
        args = {key: value for key, value in pairs.items() if key not in _ELSEWHERE}
        return _understood(words, asked, args, source="yolo")
    script = script_among(words)
    if script is None or not _trains(Path(script)):
        return None
    begin = words.index(script)
    _refuse_program(words[:begin], script)
    found = _looked(words[begin:])
    asked = {"model": found["model"], "task": found["task"], **found["given"]}
    args = {"command": list(words), **{key: value for key, value in found["given"].items() if key not in _ELSEWHERE}}
    return _understood(words, asked, args, source="as it arrives at model.train")


def _understood(words: Sequence[str], asked: Mapping[str, Any], args: Mapping[str, Any], *, source: str) -> Understood:
    said = {name: asked[name] for name in _WHEELS if asked.get(name) is not None}
    device, batch, doubt = _device(asked.get("device")), said.get("batch"), ""
    if isinstance(said.get("multi_scale"), bool):
        said["multi_scale"] = float(said["multi_scale"])  # true is a whole one
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        cure = f"say the batch you want, as in autofit run ask.micro_batch=32 -- {shlex.join(words)}"
        doubt = f"batch={said.pop('batch', None)!r} is Ultralytics' own guess ({source}): {cure}."
    ask, beliefs = {}, []
    for name, value in said.items():
        cards = device.get("cards", ()) if name == "batch" else ()
        told = f"batch={value} over {len(cards)} cards; {source}" if cards else source
        ask[_WHEELS[name]] = _batch_of_each(value, cards)
        beliefs.append(Belief(wheel=_WHEELS[name], value=ask[_WHEELS[name]], spelling=f"{name}=", source=told))
    scaled = ["multi_scale"] if "multi_scale" in ask else []
    return Understood(
        adapter="ultralytics",
        words=tuple(words),
        beliefs=tuple(beliefs),
        doubt=doubt,
        groups=("trainer: ultralytics",),
        ask={**ask, "checkpointing": False},
        args=dict(args),
        device=device,
        data=asked.get("data"),
        task=asked["task"],
        ladder={"order": ["micro_batch", "image_size", "checkpointing", *scaled, *([] if "command" in args else ["model"])]},
    )


def _numbers(device: Any) -> tuple[int, ...]:
    """``device=0,1``, ``[0, 1]`` or ``cuda:0,1`` as numbers, whether or not they are here; empty for a CPU."""
    said = re.sub(r"[\[\]() ]", "", ",".join(map(str, device)) if isinstance(device, (list, tuple)) else str(device))
    return tuple(map(int, re.findall(r"\d+", said))) if _ALL_CARDS.fullmatch(said) else ()


def _batch_of_each(batch: Any, cards: Sequence[int]) -> Any:
    """Each card's part of the batch. Raises BadInput where Ultralytics would drop a remainder without a word."""
    if not cards:
        return batch
    if batch % len(cards):
        below = batch // len(cards) * len(cards)
        found = f"batch={batch} over {len(cards)} cards: Ultralytics would train {below} of them"
        raise _refused(found, f"Take a multiple of {len(cards)}: batch={below + len(cards)}.")
    return batch // len(cards)


def _device(device: Any) -> Mapping[str, Any]:
    """Says the cards as a recipe does. Several are asked for even where there is none: such a launch is refused, as Ultralytics
    refuses it, instead of training all in one process."""
    if str(device) == "cpu":
        return {"kind": "cpu"}
    found = _numbers(device)
    return {"kind": "cuda", "cards": list(found)} if len(found) > 1 else {"index": found[0]} if found and found[0] else {}


def _read(words: Sequence[str]) -> tuple[dict[str, Any], str | None, str]:
    """Reads (arguments, task, mode) as Ultralytics' own command line reads them (cfg/__init__.py: merge_equals_args, bare words)."""
    pairs: dict[str, Any] = {}
    task, mode = None, None
    for word in re.sub(r"\0?=\0?", "=", "\0".join(words)).split("\0") if words else ():
        key, equals, value = word.lstrip("-").rstrip(",").partition("=")
        if equals:
            pairs[key] = value if key in ("name", "project") else typed(value)
        elif key in _TASKS:
            task = key
        elif key in _MODES:
            mode = key
        elif re.fullmatch(r"[a-z_]+", key):
            pairs[key] = True
        else:
            raise _refused(f"{word!r} is no argument of yolo", "Arguments are key=value, as in epochs=100.")
    return pairs, pairs.pop("task", task), pairs.pop("mode", mode) or "train"


def _trains(script: Path) -> bool:
    """Tells whether the script, or a local module that it imports, asks a model of Ultralytics' to train; a module of torch's is told no
    more than ``train(True)``."""
    sources = [file.read_text(encoding="utf-8", errors="ignore") for file in (files_of(script) if script.is_file() else ())]
    return any(_USES.search(source) and _TRAINS.search(source) for source in sources)


def _refuse_program(program: Sequence[str], script: str) -> None:
    """Raises BadInput for what isn't ``python script.py``, and where its Python has no Ultralytics."""
    if not program or not Path(program[0]).name.startswith("python") or any(option != "-u" for option in program[1:]):
        raise _refused(f"{script} trains with Ultralytics, and isn't started as python {script}", "Start it so: autofit run -- python ...")
    interpreter.follow(program[0])
    arguments.known()


def _looked(script: Sequence[str]) -> Mapping[str, Any]:
    """Returns what ``inside.look`` found. Raises BadInput where the script didn't come to its training, or autofit can't turn that."""
    with tempfile.TemporaryDirectory(prefix="autofit-look-") as place:
        file = Path(place) / "found.json"
        command = process.python_module(_LOOK, str(file), *script, python=interpreter.persons())
        status, said = process.output_of(command, env={**environment.prepare(Path(place)), "TMPDIR": place}, timeout_s=LONGEST_S)
        found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if refused := found.get("refused"):
        raise _refused(f"it asks for {refused[0]}", refused[1])
    if not found:
        ended = f"took longer than {LONGEST_S:g} s to" if status == 124 else f"ended (exit status {status}) before"
        words = " ".join(said.strip().splitlines()[-1 if "Traceback" in said else -3 :])[-1500:] or "it said nothing"
        raise _refused(f"{shlex.join(script)} {ended} its training: {words}", "It is run up to model.train to see what it asks for.")
    return found
