"""Reads Ultralytics' own arguments from the installed package's ``cfg/default.yaml``, without importing it; checks ``trainer.args``.

Each line there is ``key: default # (types) meaning``; that comment is Ultralytics' own schema for people, and it is enough to
refuse a misspelt key or a wrong type before anything is launched.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from launcher.errors import BadInput, Fault, did_you_mean
from launcher.machine import install

EXTRA = ("save_dir", "augmentations")
"""What may be said beside ``default.yaml``; ``save_dir`` in any version (``saved_in``), the other where ``extra`` finds it."""

ELSEWHERE: Mapping[str, str] = {
    "batch": "It is the ladder's: set ask.micro_batch (samples per device); autofit works out batch and nbs.",
    "imgsz": "It is the ladder's: set ask.image_size.",
    "model": "It is the ladder's: set ask.model.",
    "data": "Set data= (top level).",
    "device": "Set device=cpu, device=cuda or device.index=N.",
    "task": "Set trainer.task.",
    "mode": "autofit trains; the mode is always train.",
    "cfg": "Put the arguments of that file under trainer.args.",
    "resume": "A launch is a new training; resume an old one with `yolo train resume model=.../last.pt`.",
    "accumulate": (
        "Ultralytics has no such argument: it accumulates round(nbs / batch) micro-batches by itself (nbs, the nominal batch size, is 64). "
        "Set ask.accumulation; autofit passes the nbs and weight_decay that make it exact."
    ),
}
"""Arguments that a recipe sets elsewhere, or can't have: key -> what to do instead."""


KEPT = "kept.pt"
"""In a trial's scratch folder: the first checkpoint that its training has saved, with all that a run goes on from."""
NOT_AT_RESUME = ("model", "data", "device", "project", "name", "save_dir", "exist_ok", "resume", "pretrained")
"""What a run that goes on from a checkpoint is told by its own words, or finds in the checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One of Ultralytics' arguments."""

    default: Any
    types: tuple[str, ...]
    """By its comment: int, float, bool, str, list, tuple, optional."""


def package() -> Path:
    """The installed ultralytics package's folder.

    Raises BadInput where it isn't installed. Does not import it.
    """
    spec = importlib.util.find_spec("ultralytics")
    if spec is None or spec.origin is None:
        raise BadInput(
            [Fault(key="trainer.adapter", found="the package ultralytics is not installed", cure=f"{install.extra('ultralytics')}.")]
        )
    return Path(spec.origin).parent


@lru_cache(maxsize=1)
def known() -> Mapping[str, Argument]:
    """Every argument of the installed version."""
    text = (package() / "cfg" / "default.yaml").read_text(encoding="utf-8")
    defaults: dict[str, Any] = yaml.safe_load(text)
    types = dict(re.findall(r"^(\w+):.*?# \(([^)]*)\)", text, flags=re.MULTILINE))
    return {key: Argument(default=value, types=tuple(re.findall(r"\w+", types.get(key, "")))) for key, value in defaults.items()}


@lru_cache(maxsize=1)
def extra() -> frozenset[str]:
    """What the installed version takes beside ``default.yaml`` (``check_dict_alignment``; nothing before 8.4)."""
    text = (package() / "cfg" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r"allowed_custom_keys = \{([^}]*)\}", text)
    return frozenset(re.findall(r"\w+", found.group(1))) if found else frozenset()


def saved_in(folder: Path) -> dict[str, Any]:
    """Arguments that make Ultralytics write into ``folder`` itself. Versions before about 8.4.60 ignore ``save_dir``."""
    if "save_dir" in extra():
        return {"save_dir": str(folder)}
    return {"project": str(folder.parent), "name": folder.name, "exist_ok": True}


def is_flag(key: str) -> bool:
    """Whether the argument is only on or off in the installed version (``multi_scale`` before 8.4)."""
    return isinstance(known()[key].default, bool)


def multi_scale(said: Any) -> Any:
    """The fraction that the installed version takes from ``multi_scale``: true is a half where it is a flag, and a whole one elsewhere."""
    return (0.5 if is_flag("multi_scale") else 1.0) * said if isinstance(said, bool) else said


def value_of(args: Mapping[str, Any], key: str) -> Any:
    """The argument as the trainer will see it: the recipe's, or Ultralytics' default."""
    return args.get(key, known()[key].default)


def faults(args: Mapping[str, Any], *, asked: Mapping[str, Any]) -> list[Fault]:
    """All faults of ``trainer.args``. ``asked``: the recipe's wheels, which must not be given twice."""
    found: list[Fault] = []
    for key, value in args.items():
        place = f"trainer.args.{key}"
        if key in ELSEWHERE:
            found.append(Fault(key=place, found=f"{value!r} can't be set here", cure=ELSEWHERE[key]))
        elif asked.get(key) is not None:
            found.append(Fault(key=place, found=f"said twice: also ask.{key}={asked[key]!r}", cure="Keep the one under ask."))
        elif key not in known() and key != "save_dir" and key not in extra():
            cure = f"{did_you_mean(key, known())}See the Ultralytics train settings, or `yolo cfg`."
            found.append(Fault(key=place, found=f"{value!r}: Ultralytics has no argument of that name", cure=cure))
        elif key in known() and (problem := _type_problem(key, value)):
            found.append(Fault(key=place, found=f"{value!r} is not {problem}", cure=f"Default: {known()[key].default!r}."))
    return found + _particular(args)


_PYTHON = {"int": int, "float": (int, float), "bool": bool, "str": str, "list": (list, tuple), "tuple": (list, tuple)}


def _type_problem(key: str, value: Any) -> str:
    """What type the value should have; empty if it is right."""
    argument = known()[key]
    if value is None:
        return "" if "optional" in argument.types or argument.default is None else f"set ({' or '.join(argument.types)})"
    types = [one for one in argument.types if one in _PYTHON]
    for one in types:
        if isinstance(value, bool) and one != "bool":
            continue
        if isinstance(value, _PYTHON[one]):  # type: ignore[arg-type]
            return ""
    return " or ".join(types) if types else ""


def _particular(args: Mapping[str, Any]) -> list[Fault]:
    found = []
    epochs = args.get("epochs")
    if isinstance(epochs, int) and epochs < 1:
        found.append(Fault(key="trainer.args.epochs", found=f"{epochs} epochs", cure="At least 1."))
    nbs = args.get("nbs")
    if isinstance(nbs, int) and nbs < 1:
        found.append(Fault(key="trainer.args.nbs", found=f"{nbs}", cure="At least 1; Ultralytics' default is 64."))
    multi_scale = args.get("multi_scale")
    if isinstance(multi_scale, (int, float)) and not 0 <= multi_scale <= 1:
        found.append(Fault(key="trainer.args.multi_scale", found=f"{multi_scale}", cure="A fraction of the image size from 0 to 1."))
    return found
