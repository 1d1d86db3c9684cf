"""A script that trains with Ultralytics -> what it asks for: it is run up to ``model.train``, and what arrives there is read.

``YOLO("yolov8x.pt").train(**CONFIG)``: such a script is this trainer's, as a ``yolo`` command is. Its source is only read to find out
whether the script trains with it; what it computes, parses and loads is its own affair (``inside.look``).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.adapter.commands import script_among
from launcher.adapter.recognised import Belief, Understood
from launcher.errors import PLACE, BadInput, Fault
from launcher.machine import process
from launcher.trainers.ultralytics import arguments as yolo_arguments
from launcher.trainers.ultralytics import environment, script_source

LONGEST_S = 300.0
"""So long may a script take to its training, imports included."""
_INSIDE = "launcher.trainers.ultralytics.inside.look"
_ORDER = ("micro_batch", "image_size", "checkpointing", "multi_scale")
_TAIL_CHARACTERS = 1500


def understand(words: Sequence[str]) -> Understood | None:
    """What a script trains; None for one that doesn't train with Ultralytics. Raises BadInput where it can't be followed."""
    script = script_among(words)
    calls = script_source.trainings(Path(script)) if script is not None else []
    if script is None or not calls:
        return None
    script_source.refuse_several(calls)
    _refuse_program(words, script)
    found = _looked(words[words.index(script) :])
    place = f"{_short(found['place'][0])} line {found['place'][1]}"
    _refuse(found, place)
    return _understood(words, found, place)


# ----------------------------------------------------------------------------------------------------------------------
# What arrives


def _refuse_program(words: Sequence[str], script: str) -> None:
    """Raises BadInput for what isn't ``python script.py``, and for a Python of another environment than autofit's."""
    program, *options = words[: words.index(script)] if words.index(script) else ("",)
    if not Path(program).name.startswith("python") or any(option != "-u" for option in options):
        found = f"{script} trains with Ultralytics, and isn't started as python {script}"
        raise BadInput([Fault(key=PLACE, found=found, cure=f"Start it so: autofit run -- python {script} ...")])
    where = shutil.which(program)
    if where is None:
        raise BadInput([Fault(key=PLACE, found=f"there is no program {program!r} that can be started", cure="Begin with python.")])
    if Path(where).absolute().parent == Path(sys.executable).parent:
        return
    _, prefix = process.output_of((where, "-c", "import sys; print(sys.prefix)"))
    if prefix.strip() != sys.prefix:
        found = f"{program} is {where}, which isn't the environment that autofit runs in ({sys.prefix})"
        cure = f"Start it with autofit's own ({sys.executable}), or install autofit beside the script's Ultralytics."
        raise BadInput([Fault(key=PLACE, found=found, cure=cure)])


def _looked(script: Sequence[str]) -> Mapping[str, Any]:
    """What ``inside.look`` found. Raises BadInput where the script didn't come to its training."""
    with tempfile.TemporaryDirectory(prefix="autofit-look-") as place:
        file = Path(place) / "found.json"
        command = process.python_module(_INSIDE, str(file), *script)
        status, said = process.output_of(command, env=environment.prepare(Path(place)), timeout_s=LONGEST_S)
        if file.exists():
            found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return found
    ended = f"took longer than {LONGEST_S:g} s to its training" if status == 124 else f"ended before its training (exit status {status})"
    cure = "Let it come to model.train when it is started so; it is run that far to see what it asks for."
    raise BadInput([Fault(key=PLACE, found=f"{script[0]} {ended}: {said.strip()[-_TAIL_CHARACTERS:]}", cure=cure)])


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _refuse(found: Mapping[str, Any], place: str) -> None:
    """Raises BadInput for a training that autofit can't turn."""
    given = found.get("given", {})
    batch, size = given.get("batch"), given.get("imgsz")
    wrong = [
        (found.get("instead"), found.get("instead"), "autofit fits one training of model.train(...)."),
        (found.get("trainer"), f"trainer={found.get('trainer')}, a trainer of the script's own", "Launch it without autofit."),
        (given.get("resume"), f"resume={given.get('resume')!r}", "A launch is a new training: let the script begin one."),
        (not _is_count(batch), f"batch={batch!r}, Ultralytics' own guess", "Say the batch you want: batch=64."),
        (not _is_count(size), f"imgsz={size!r}", "autofit knows square sizes: imgsz=640."),
        (not isinstance(given.get("data"), str), f"data={given.get('data')!r}", "autofit knows one data set a training: data='data.yaml'."),
    ]
    faults = [Fault(key=PLACE, found=f"{place} asks for {what}", cure=cure) for is_wrong, what, cure in wrong if is_wrong]
    if faults:
        raise BadInput(faults[:1])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _understood(words: Sequence[str], found: Mapping[str, Any], place: str) -> Understood:
    given = found["given"]
    multi_scale = {"multi_scale": given["multi_scale"]} if "multi_scale" in given else {}
    ask = {"model": found["model"], "micro_batch": given["batch"], "image_size": given["imgsz"], "checkpointing": False, **multi_scale}
    source = f"as it arrives at model.train, {place}"
    spelled = {"model": "model", "micro_batch": "batch", "image_size": "imgsz", "multi_scale": "multi_scale"}
    beliefs = [Belief(wheel=wheel, value=ask[wheel], spelling=name, source=source) for wheel, name in spelled.items() if wheel in ask]
    return Understood(
        adapter="ultralytics",
        words=tuple(words),
        beliefs=(*beliefs, *own_accumulation(given["batch"], given)),
        groups=("trainer: ultralytics",),
        ask=ask,
        args={"command": list(words), "given": given},
        data=given["data"],
        task=found["task"],
        ladder={"order": [wheel for wheel in _ORDER if wheel in ask]},
        comments={"trainer.args.command": "the script as it stands", "trainer.args.given": "what arrives at model.train"},
    )


def own_accumulation(batch: int, args: Mapping[str, Any]) -> Iterator[Belief]:
    """Ultralytics' own, where it has one: a batch of 32 makes an optimizer step of two, by its nominal batch of 64."""
    nbs = yolo_arguments.value_of(args, "nbs")
    times = max(round(nbs / batch), 1) if _is_count(nbs) else 1
    if times > 1:
        source = f"Ultralytics makes an optimizer step of {batch * times} images after its warm-up"
        yield Belief(wheel="accumulation", value=times, spelling=f"nbs={nbs}", source=source)
