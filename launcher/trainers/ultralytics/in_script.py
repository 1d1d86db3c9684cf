"""Finds what a script that trains with Ultralytics asks for: runs it up to ``model.train`` and reads what arrives there.

``YOLO("yolov8x.pt").train(**CONFIG)``: such a script is this trainer's, as a ``yolo`` command is. Its source is only read to find out
whether the script trains with it; what it computes, parses and loads is its own affair (``inside.look``).
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.adapter.recognised import Belief, Doubt, Understood
from launcher.errors import PLACE, BadInput, Fault
from launcher.machine import process
from launcher.trainers.ultralytics import arguments as yolo_arguments
from launcher.trainers.ultralytics import by_script, environment, script_source
from launcher.trainers.ultralytics import cards as yolo_cards
from launcher.trainers.ultralytics.script_source import TrainCall

LONGEST_S = 300.0
"""So long may a script take to its training, imports included."""
_INSIDE = "launcher.trainers.ultralytics.inside.look"
_ORDER = ("micro_batch", "image_size", "checkpointing", "multi_scale")
_WHEELS = {"model": "model", "batch": "micro_batch", "imgsz": "image_size", "multi_scale": "multi_scale"}
_TAIL_CHARACTERS = 1500


def understand(words: Sequence[str]) -> Understood | None:
    """What a script trains; None for one that doesn't train with Ultralytics. Raises BadInput where it can't be followed."""
    program = by_script.program_of(words)
    calls = script_source.trainings(program[0]) if program is not None else []
    if program is None or not calls:
        return None
    script_source.refuse_several(calls)
    _refuse_program(words, *program)
    found = _looked(words[program[1] :])
    place = f"{_short(found['place'][0])} line {found['place'][1]}"
    _refuse(found, place)
    if found["made"] is not None:
        _written(Path(found["given"]["data"]), found["made"])
    return _understood(words, found, place, calls[0])


# ----------------------------------------------------------------------------------------------------------------------
# What arrives


def _refuse_program(words: Sequence[str], script: Path, begin: int) -> None:
    """Raises BadInput for what isn't ``python script.py``, and for a Python of another environment than autofit's."""
    program, *options = words[:begin] if begin else ("",)
    own = _named(words[begin:])
    if not Path(program).name.startswith("python") or any(option != "-u" for option in options):
        found = f"{script} trains with Ultralytics, and isn't started as python {own}"
        raise BadInput([Fault(key=PLACE, found=found, cure=f"Start it so: autofit run -- python {own} ...")])
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
        env = {**environment.prepare(Path(place)), "TMPDIR": place}
        status, said = process.output_of(command, env=env, timeout_s=LONGEST_S)
        if file.exists():
            found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return found
    ended = f"took longer than {LONGEST_S:g} s to its training" if status == 124 else f"ended before its training (exit status {status})"
    cure = "Let it come to model.train when it is started so; it is run that far to see what it asks for."
    raise BadInput([Fault(key=PLACE, found=f"{_named(script)} {ended}: {_last_words(said)}", cure=cure)])


def _named(script: Sequence[str]) -> str:
    """The script, or the module, as its command names it."""
    return shlex.join(script[:2] if script[0] == "-m" else script[:1])


def _last_words(said: str) -> str:
    """The error; of other words the last lines, as argparse ends."""
    lines = said.strip().splitlines()
    return " ".join(lines[-1:] if "Traceback" in said else lines[-3:])[-_TAIL_CHARACTERS:] or "it said nothing"


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _refuse(found: Mapping[str, Any], place: str) -> None:
    """Raises BadInput for a training that autofit can't turn."""
    given = found.get("given", {})
    size = given.get("imgsz")
    wrong = [
        (found.get("instead"), found.get("instead"), "autofit fits one training of model.train(...)."),
        (found.get("trainer"), f"trainer={found.get('trainer')}, a trainer of the script's own", "Launch it without autofit."),
        (given.get("resume"), f"resume={given.get('resume')!r}", "A launch is a new training: let the script begin one."),
        (not _is_count(size), f"imgsz={size!r}", "autofit knows square sizes: imgsz=640."),
        (not isinstance(given.get("data"), str), f"data={given.get('data')!r}", "autofit knows one data set a training: data='data.yaml'."),
    ]
    faults = [Fault(key=PLACE, found=f"{place} asks for {what}", cure=cure) for is_wrong, what, cure in wrong if is_wrong]
    if faults:
        raise BadInput(faults[:1])


def _written(path: Path, text: str) -> None:
    """The data set's file, as the script itself writes it before it trains: the data is looked at before anything runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _understood(words: Sequence[str], found: Mapping[str, Any], place: str, call: TrainCall) -> Understood:
    given, source = found["given"], f"as it arrives at model.train, {place}"
    said = {
        "model": found["model"],
        "batch": given["batch"],
        "imgsz": given["imgsz"],
        "multi_scale": yolo_arguments.multi_scale(given.get("multi_scale")),
    }
    ask = {wheel: said[name] for name, wheel in _WHEELS.items() if said[name] is not None}
    guessed, cards = not _is_count(given["batch"]), yolo_cards.asked(given.get("device"))
    if guessed:
        del ask["micro_batch"]
    else:
        ask["micro_batch"] = yolo_cards.batch_of_each(given["batch"], cards)
    parts = {"batch": yolo_cards.in_words(given["batch"], cards)}
    beliefs = [
        Belief(
            wheel=wheel, value=ask[wheel], spelling=name, source=f"{_in_words(call, name, given.get(name))}{parts.get(name, '')}{source}"
        )
        for name, wheel in _WHEELS.items()
        if wheel in ask
    ]
    own = () if guessed else own_accumulation(given["batch"], given)
    cure = f"say the batch you want, as in autofit run ask.micro_batch=32 -- {shlex.join(words)}"
    doubt = Doubt(wheel="micro_batch", text=f"{place} asks for batch={given['batch']!r}, Ultralytics' own guess: {cure}")
    written = f"the script writes {given['data']} by itself before it trains, so it was written as it would be, to look at the data"
    made = (Doubt(wheel="data", text=written),) if found["made"] is not None else ()
    return Understood(
        adapter="ultralytics",
        words=tuple(words),
        beliefs=(*beliefs, *own),
        doubts=((doubt,) if guessed else ()) + made,
        groups=("trainer: ultralytics",),
        ask={**ask, "checkpointing": False},
        args={"command": list(words), "given": given},
        device=yolo_cards.section(given.get("device")),
        data=given["data"],
        task=found["task"],
        ladder={"order": [wheel for wheel in _ORDER if wheel != "multi_scale" or wheel in ask]},
        comments={"trainer.args.command": "the script as it stands", "trainer.args.given": "what arrives at model.train"},
    )


def _in_words(call: TrainCall, name: str, value: Any) -> str:
    """What the source says of it, in its words, where that is elsewhere than in the call."""
    node = script_source.number_of(call.file, call.node, name, value)
    return f"{script_source.place_of(call.file, node)}; " if node is not None and node.lineno != call.line else ""


def own_accumulation(batch: Any, args: Mapping[str, Any]) -> Iterator[Belief]:
    """Ultralytics' own, where it has one: a batch of 32 makes an optimizer step of two, by its nominal batch of 64."""
    nbs = yolo_arguments.value_of(args, "nbs")
    times = max(round(nbs / batch), 1) if _is_count(nbs) and _is_count(batch) else 1
    if times > 1:
        source = f"Ultralytics makes an optimizer step of {batch * times} images after its warm-up"
        yield Belief(wheel="accumulation", value=times, spelling=f"nbs={nbs}", source=source)
