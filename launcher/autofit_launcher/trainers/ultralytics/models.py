"""Finds the smaller models of a YOLO model's family, and what a model's name stands for: weights, here or to be downloaded, or none.

Says what Ultralytics would find, without importing it: the rules are those of Ultralytics 8.4 (``utils/downloads.py``, ``utils/checks.py``,
``nn/tasks.py: yaml_model_load``). Nothing is written, nothing is downloaded.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from autofit_launcher.errors import BadInput, Fault
from autofit_launcher.trainers.ultralytics import environment

_SIZED = re.compile(r"(?P<family>yoloe?-?v?(?P<version>\d+))(?P<letter>[a-z])(?P<rest>6?u?(?:-[a-z0-9-]+)?)")
_LETTERS = {"9": "ecmst", "10": "xlbmsn"}
"""Sizes of the families that have their own, largest first; all others are x, l, m, s, n."""
_YAML = (".yaml", ".yml")


def smaller(model: str, floor: str | None = None) -> tuple[str, ...]:
    """The same model in every smaller size, largest first, with folder and suffix kept; () where sizes mean nothing.

    A name only: whether the file is here, or can be had, is for ``start_of``. Raises ValueError for a ``floor`` (a letter, or a model) that
    is no size of the family.
    """
    path = PurePosixPath(model)
    match = _SIZED.fullmatch(_stem(path))
    letters = _LETTERS.get(match["version"], "xlmsn") if match is not None else ""
    if match is None or match["letter"] not in letters or "rtdetr" in model:  # without a letter, Ultralytics takes the smallest size
        return ()
    sized = _SIZED.fullmatch(_stem(PurePosixPath(floor))) if floor else None
    lowest = sized["letter"] if sized else floor or letters[-1]
    if len(lowest) != 1 or lowest not in letters:
        raise ValueError(f"floor {floor!r} is no size of {model}; its sizes are {', '.join(letters)}")
    suffix = path.name.removeprefix(_stem(path))
    below = letters[letters.index(match["letter"]) + 1 : letters.index(lowest) + 1]
    return tuple(f"{model[: len(model) - len(path.name)]}{match['family']}{one}{match['rest']}{suffix}" for one in below)


def _stem(path: PurePosixPath) -> str:
    return path.stem if path.suffix in (".pt", *_YAML) else path.name


@dataclass(frozen=True, slots=True)
class Start:
    """The file that a model value stands for."""

    file: str
    """Name that Ultralytics gets: ``.pt`` (weights) or ``.yaml`` (from scratch)."""
    path: Path | None
    """The file that it opens; None where it is to be downloaded."""
    note: str = ""
    """A sentence for the user; empty if there is nothing to say."""


def start_of(model: str) -> Start:
    """Finds what ``model`` stands for. Raises BadInput if it isn't here and can't be downloaded."""
    bare = f"{Path(model).name}.pt" in assets()
    name = f"{model}.pt" if bare else model
    places = _places(name)
    path = next((place for place in places if place.is_file()), None)
    if path is not None:
        return Start(name, path)
    if fetchable(name):
        return Start(name, None, f"{name} isn't here yet: Ultralytics will download it")
    if bare:
        note = f"{name} isn't here and can't be fetched: {model} trains FROM SCRATCH; ask.model={name} would insist on weights"
        return Start(f"{model}.yaml", next((place for place in _places(f"{model}.yaml") if place.is_file()), None), note)
    looked = ", ".join(map(str, places)) or "nowhere: it isn't a .pt or .yaml file"
    cure = f"Put the file there, or train from scratch: ask.model={Path(model).stem}.yaml." if name.endswith(".pt") else ""
    found = f"{model!r} isn't here and can't be fetched (looked for {looked})"
    raise BadInput([Fault(key="ask.model", found=found, cure=cure or "Name a .pt or .yaml model.")])


def from_weights(model: str) -> bool | None:
    """Tells whether a model starts from weights; None where it is neither here nor can be had."""
    try:
        return start_of(model).file.endswith(".pt")
    except BadInput:
        return None


def _places(name: str) -> list[Path]:
    """Lists where Ultralytics looks for a model's file, in its order; nothing for what can't be trained from."""
    path = Path(_as_u_model(name))
    if "://" in name or path.suffix not in (".pt", *_YAML):
        return []
    if path.suffix == ".pt":
        return [path, weights_dir() / path]
    stem = re.sub(r"^(yolov[58][nslmx])6(.*)", r"\1-p6\2", path.stem)  # the old spelling of -p6
    family = re.sub(r"(\d+)([nslmx])(.+)?$", r"\1\3", stem)  # a sized architecture is its family's file
    names = [path.with_name(one + path.suffix) for one in dict.fromkeys((stem, family))]
    return [place for one in names for place in (one, *([shipped()[one.name]] if one.name in shipped() else []))]


def _as_u_model(name: str) -> str:
    """Ultralytics' own renaming of v3 and v5 models (``check_yolov5u_filename``): yolov5n.pt -> yolov5nu.pt."""
    if "yolov3" not in name and "yolov5" not in name:
        return name
    if name.endswith("u.yaml"):
        return name.replace("u.yaml", ".yaml")
    return re.sub(r"(.*(?:yolov5[nsmlx]6?|yolov3(?:-tiny|-spp)?))\.pt", r"\1u.pt", name)


def fetchable(model: str) -> bool:
    """Tells whether Ultralytics could download ``model`` right now: it publishes that name, and GitHub answers."""
    return Path(_as_u_model(model)).name in assets() and network_is_there()


@functools.cache
def network_is_there() -> bool:
    """Tells whether GitHub, or the proxy, takes a connection within two seconds; asked once. YOLO_OFFLINE is taken at its word.

    It is asked in a thread of its own: name resolution has no time limit.
    """
    if os.environ.get("YOLO_OFFLINE", "").lower() in {"1", "true"}:
        return False
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or "https://github.com:443"
    answered = threading.Event()

    def ask() -> None:
        with suppress(OSError, ValueError):
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            socket.create_connection((parts.hostname, parts.port or 80), timeout=2).close()
            answered.set()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(3.0)
    return answered.is_set()


def assets() -> frozenset[str]:
    """Every file that the installed version downloads by name."""
    return _assets(environment.installed())


@functools.cache
def _assets(root: Path | None) -> frozenset[str]:
    tree = ast.parse((root / "utils" / "downloads.py").read_text(encoding="utf-8") if root is not None else "")
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GITHUB_ASSETS_NAMES":
            return frozenset(eval(compile(ast.Expression(node.value), "downloads.py", "eval")))
    return frozenset()


def shipped() -> dict[str, Path]:
    """Architectures that the package ships."""
    root = environment.installed()
    return {path.name: path for path in sorted((root / "cfg" / "models").rglob("*.yaml"))} if root is not None else {}


def setting(key: str) -> object:
    """One of the user's Ultralytics settings; None where nothing says it."""
    try:
        return json.loads((environment.user_config_folder() / "settings.json").read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return None


def weights_dir() -> Path:
    """Finds the folder of weights behind the given path: the user's setting, else ``weights`` in the package's git checkout, or here."""
    root = environment.installed()
    above = root.resolve().parents if root is not None else ()
    return Path(str(setting("weights_dir") or next((one for one in above if (one / ".git").exists()), Path()) / "weights"))
