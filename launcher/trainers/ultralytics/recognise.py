"""What a command asks of Ultralytics: the words of ``yolo detect train ...``, or what arrives at ``model.train`` in a person's script.

A script is run up to its training (``inside.look``): what it computes, parses and loads is its own affair.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from launcher.adapter.recognised import Belief, Doubt, Understood, typed
from launcher.errors import PLACE, BadInput, Fault
from launcher.machine import process
from launcher.trainers.ultralytics import arguments as yolo_arguments
from launcher.trainers.ultralytics import by_script, cards, environment, script_source

LONGEST_S = 300.0
"""So long may a script take to its training, imports included."""
_TASKS = ("detect", "segment", "classify", "pose", "obb", "semantic", "depth")
_MODES = ("train", "val", "predict", "export", "track", "benchmark")
_WHEELS = {"model": "model", "batch": "micro_batch", "imgsz": "image_size", "multi_scale": "multi_scale"}


def understand(words: Sequence[str]) -> Understood | None:
    """What a ``yolo`` command or a script that trains with Ultralytics asks for; None for another program.

    Raises BadInput where it trains nothing, or can't be followed.
    """
    if Path(words[0]).name in ("yolo", "ultralytics"):
        pairs, task, mode = _read(words[1:])
        if mode != "train":
            _refuse(f"yolo {mode} trains nothing", "autofit fits trainings: yolo detect train ...")
        asked = {"model": "yolo26n.pt", "batch": 16, "imgsz": 640, **pairs, "task": task}
        args = {key: value for key, value in pairs.items() if key not in (*_WHEELS, "data", "device")}
        return _understood(words, asked, args, source="yolo")
    program = by_script.program_of(words)
    if program is None or not script_source.trainings(program[0]):
        return None
    script, begin = program
    _refuse_program(words[:begin], script, _named(words[begin:]))
    found = _looked(words[begin:])
    place = f"{os.path.relpath(found['place'][0])} line {found['place'][1]}"
    _refuse_training(found, place)
    if found["made"] is not None:  # the script writes it before it trains, and the data is looked at before anything runs
        Path(found["given"]["data"]).parent.mkdir(parents=True, exist_ok=True)
        Path(found["given"]["data"]).write_text(found["made"], encoding="utf-8")
    asked, args = {"model": found["model"], "task": found["task"], **found["given"]}, {"command": list(words), "given": found["given"]}
    return _understood(words, asked, args, source=f"as it arrives at model.train, {place}", made=found["made"])


def _understood(
    words: Sequence[str], asked: Mapping[str, Any], args: Mapping[str, Any], *, source: str, made: str | None = None
) -> Understood:
    said = {name: asked[name] for name in _WHEELS if asked.get(name) is not None}
    among, doubts = cards.asked(asked.get("device")), []
    if "multi_scale" in said:
        said["multi_scale"] = yolo_arguments.multi_scale(said["multi_scale"])
    if not _is_count(said.get("batch")):
        cure = f"say the batch you want, as in autofit run ask.micro_batch=32 -- {shlex.join(words)}"
        text = f"batch={said.pop('batch', None)!r} is Ultralytics' own guess ({source}): {cure}"
        doubts.append(Doubt(wheel="micro_batch", text=text))
    if made is not None:
        doubts.append(Doubt(wheel="data", text=f"the script writes {asked['data']} by itself: it was written now, to look at the data"))
    ask = {_WHEELS[name]: cards.batch_of_each(value, among) if name == "batch" else value for name, value in said.items()}
    sources = dict.fromkeys(said, source)
    if among and "batch" in said:
        sources["batch"] = f"batch={said['batch']} over {len(among)} cards; {source}"
    beliefs = [Belief(wheel=_WHEELS[name], value=ask[_WHEELS[name]], spelling=f"{name}=", source=sources[name]) for name in said]
    scaled = ["multi_scale"] if "multi_scale" in ask else []
    return Understood(
        adapter="ultralytics",
        words=tuple(words),
        beliefs=(*beliefs, *_own_accumulation(said.get("batch"), asked)),
        doubts=tuple(doubts),
        groups=("trainer: ultralytics",),
        ask={**ask, "checkpointing": False},
        args=dict(args),
        device=cards.section(asked.get("device")),
        data=asked.get("data"),
        task=asked["task"],
        ladder={"order": ["micro_batch", "image_size", "checkpointing", *scaled, *([] if "command" in args else ["model"])]},
    )


def _own_accumulation(batch: int | None, asked: Mapping[str, Any]) -> Iterator[Belief]:
    """Ultralytics' own, where it has one: a batch of 32 makes an optimizer step of two, by its nominal batch of 64."""
    nbs = yolo_arguments.value_of(asked, "nbs")
    times = max(round(nbs / batch), 1) if batch and _is_count(nbs) else 1
    if batch and times > 1:
        source = f"Ultralytics makes an optimizer step of {batch * times} images after its warm-up"
        yield Belief(wheel="accumulation", value=times, spelling=f"nbs={nbs}", source=source)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _refuse(found: str, cure: str) -> NoReturn:
    raise BadInput([Fault(key=PLACE, found=found, cure=cure)])


# ----------------------------------------------------------------------------------------------------------------------
# A yolo command


def _read(words: Sequence[str]) -> tuple[dict[str, Any], str | None, str]:
    """(arguments, task, mode), as Ultralytics' own command line reads them (cfg/__init__.py: merge_equals_args, bare words)."""
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
            _refuse(f"{word!r} is no argument of yolo", "Arguments are key=value, as in epochs=100.")
    return pairs, pairs.pop("task", task), pairs.pop("mode", mode) or "train"


# ----------------------------------------------------------------------------------------------------------------------
# A script


def _refuse_program(program: Sequence[str], script: Path, own: str) -> None:
    """Raises BadInput for what isn't ``python script.py``, and for a Python of another environment than autofit's."""
    if not program or not Path(program[0]).name.startswith("python") or any(option != "-u" for option in program[1:]):
        _refuse(f"{script} trains with Ultralytics, and isn't started as python {own}", f"Start it so: autofit run -- python {own} ...")
    status, said = process.output_of((program[0], "-c", "import sys; print(sys.prefix)"))
    if status:
        _refuse(f"{program[0]} can't be started: {said.strip()}", "Begin with python.")
    if said.strip() != sys.prefix:
        found = f"{program[0]} isn't of the environment that autofit runs in ({sys.prefix})"
        _refuse(found, f"Start it with autofit's own ({sys.executable}), or install autofit beside the script's Ultralytics.")


def _looked(script: Sequence[str]) -> Mapping[str, Any]:
    """What ``inside.look`` found. Raises BadInput where the script didn't come to its training."""
    with tempfile.TemporaryDirectory(prefix="autofit-look-") as place:
        file = Path(place) / "found.json"
        command = process.python_module("launcher.trainers.ultralytics.inside.look", str(file), *script)
        status, said = process.output_of(command, env={**environment.prepare(Path(place)), "TMPDIR": place}, timeout_s=LONGEST_S)
        if file.exists():
            found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return found
    ended = f"took longer than {LONGEST_S:g} s to its training" if status == 124 else f"ended before its training (exit status {status})"
    lines = said.strip().splitlines()
    words = " ".join(lines[-1:] if "Traceback" in said else lines[-3:])[-1500:] or "it said nothing"
    _refuse(f"{_named(script)} {ended}: {words}", "It is run up to model.train to see what it asks for: let it come there.")


def _refuse_training(found: Mapping[str, Any], place: str) -> None:
    """Raises BadInput for a training that autofit can't turn."""
    given = found.get("given", {})
    wrong = [
        (found.get("instead"), found.get("instead"), "autofit fits one training of model.train(...)."),
        (found.get("trainer"), f"trainer={found.get('trainer')}, a trainer of the script's own", "Launch it without autofit."),
        (given.get("resume"), f"resume={given.get('resume')!r}", "A launch is a new training: let the script begin one."),
        (not _is_count(given.get("imgsz")), f"imgsz={given.get('imgsz')!r}", "autofit knows square sizes: imgsz=640."),
        (not isinstance(given.get("data"), str), f"data={given.get('data')!r}", "autofit knows one data set a training: data='data.yaml'."),
    ]
    for is_wrong, what, cure in wrong:
        if is_wrong:
            _refuse(f"{place} asks for {what}", cure)


def _named(script: Sequence[str]) -> str:
    """The script, or the module, as its command names it."""
    return shlex.join(script[:2] if script[0] == "-m" else script[:1])
