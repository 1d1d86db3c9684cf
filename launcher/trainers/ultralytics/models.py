"""Finds the smaller models of a YOLO model's family, and the file of a model.

Says what Ultralytics would find, without importing it: the rules are those of Ultralytics 8.4
(``utils/downloads.py``, ``utils/checks.py: check_file``, ``nn/tasks.py: yaml_model_load``, ``utils/__init__.py:
SettingsManager``). Nothing is written, nothing is downloaded.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import json
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from launcher.trainers.ultralytics import environment

_SIZED = re.compile(r"(?P<family>yoloe?-?v?(?P<version>\d+))(?P<letter>[a-z])(?P<rest>6?u?(?:-[a-z0-9-]+)?)")
_LETTERS = {"9": "ecmst", "10": "xlbmsn"}
"""Sizes of the families that have their own, largest first; all others are x, l, m, s, n."""


def smaller(model: str) -> tuple[str, ...]:
    """The same model in every smaller size, largest first, with folder and suffix kept; () where sizes mean nothing.

    A name only: whether the file is here, or can be had, is for ``locate`` and ``fetchable``. Where the asked name is
    one that Ultralytics publishes, sizes that it doesn't publish are left out (there is no yolov8n-worldv2.pt).
    """
    path = PurePosixPath(model)
    suffix = path.suffix if path.suffix in {".pt", ".yaml", ".yml"} else ""
    stem = path.name.removesuffix(suffix)
    match = _SIZED.fullmatch(stem)
    if match is None or "rtdetr" in stem:  # without a letter, Ultralytics takes the smallest size
        return ()
    letters = _LETTERS.get(match["version"], "xlmsn")
    if match["letter"] not in letters:
        return ()
    published = _published(path.name)
    names = []
    for letter in letters[letters.index(match["letter"]) + 1 :]:
        name = f"{match['family']}{letter}{match['rest']}{suffix}"
        if not published or name in published or f"{name}.pt" in published:
            names.append(model[: len(model) - len(path.name)] + name)
    return tuple(names)


def size_of(model: str) -> str | None:
    """The size letter of a model's name (x of yolov8x-seg.pt), or None where it has none."""
    match = _SIZED.fullmatch(PurePosixPath(model).name.removesuffix(".pt").removesuffix(".yaml").removesuffix(".yml"))
    return match["letter"] if match else None


def down_to(model: str, floor: str) -> tuple[str, ...]:
    """``smaller(model)`` as far as the size ``floor`` (a letter, or a model of that size); () where ``model`` is at or below it.

    Raises ValueError where the floor is no size of the model's family.
    """
    match = _SIZED.fullmatch(PurePosixPath(model).name.removesuffix(".pt").removesuffix(".yaml").removesuffix(".yml"))
    if match is None:
        return ()
    letters = _LETTERS.get(match["version"], "xlmsn")
    lowest = floor if len(floor) == 1 else size_of(floor)
    if lowest is None or lowest not in letters:
        raise ValueError(f"floor {floor!r} is no size of {model}; its sizes are {', '.join(letters)}")
    kept = tuple(letters[: letters.index(lowest) + 1])
    return tuple(name for name in smaller(model) if size_of(name) in kept)


def _published(name: str) -> frozenset[str]:
    """The closed list that ``name`` belongs to, empty where it belongs to none."""
    if name in ASSETS or f"{name}.pt" in ASSETS:
        return ASSETS
    shipped = frozenset(path.name for path in _package_yamls() if path.parent.parent.name == "models")
    return shipped if name in shipped else frozenset()  # v9 and v10 have a file for every size


@dataclass(frozen=True, kw_only=True, slots=True)
class Located:
    """Where a model's file is, as Ultralytics would look for it."""

    model: str
    path: Path | None
    """The file that Ultralytics would open; None where it isn't on this machine."""
    kind: str
    """"weights" (.pt), "architecture" (.yaml: random weights at first), "bare" (a published name without suffix, taken
    as .pt), "remote" (a URL or platform address) or "other" (an export, which can't be trained, or no model at all)."""
    looked_in: tuple[Path, ...]
    """Every place that was tried, in Ultralytics' order."""


def locate(model: str) -> Located:
    """Finds ``model`` on this machine. A sized architecture (yolov8x.yaml) is its family's file (yolov8.yaml)."""
    name = model.strip()
    if "://" in name:
        return Located(model=model, path=None, kind="remote", looked_in=())
    suffix = Path(name).suffix.lower()
    if suffix in {".yaml", ".yml"}:
        return _architecture(name)
    kind = "weights" if suffix == ".pt" else "bare" if f"{Path(name).name}.pt" in ASSETS else "other"
    wanted = Path(_as_u_model(f"{name}.pt" if kind == "bare" else name))
    places = (wanted, weights_dir() / wanted) if kind != "other" else (wanted,)
    return Located(model=model, path=next((p for p in places if p.is_file()), None), kind=kind, looked_in=places)


def _architecture(name: str) -> Located:
    """As ``yaml_model_load``: the name itself, then its family's (no size letter), each also in the package."""
    path = Path(name)
    if re.fullmatch(r"yolov[58][nslmx]6", path.stem):  # the old spelling of -p6
        path = path.with_name(re.sub(r"(\d+)([nslmx])6(.+)?$", r"\1\2-p6\3", path.stem) + path.suffix)
    family = Path(re.sub(r"(\d+)([nslmx])(.+)?$", r"\1\3", str(path)))
    places = []
    for wanted in dict.fromkeys((Path(_as_u_model(str(path))), Path(_as_u_model(str(family))))):
        places.append(wanted)
        if wanted.is_file():
            return Located(model=name, path=wanted, kind="architecture", looked_in=tuple(places))
        shipped = package_yaml(str(wanted))
        if shipped is not None:
            return Located(model=name, path=shipped, kind="architecture", looked_in=(*places, shipped))
    root = package_root()
    looked_in = (*places, root / "cfg" / "models") if root else tuple(places)
    return Located(model=name, path=None, kind="architecture", looked_in=looked_in)


def _as_u_model(name: str) -> str:
    """Ultralytics' own renaming of v3 and v5 models (``check_yolov5u_filename``): yolov5n.pt -> yolov5nu.pt."""
    if "yolov3" not in name and "yolov5" not in name:
        return name
    if "u.yaml" in name:
        return name.replace("u.yaml", ".yaml")
    if name.endswith(".pt") and "u" not in name:
        return re.sub(r"(.*(?:yolov5[nsmlx]6?|yolov3(?:-tiny|-spp)?))\.pt", r"\1u.pt", name)
    return name


def fetchable(model: str) -> bool:
    """Whether Ultralytics could download ``model`` right now: a name that it publishes, and GitHub answers."""
    name = Path(_as_u_model(model.strip())).name
    return (name in ASSETS or f"{name}.pt" in ASSETS) and network_is_there()


@functools.cache
def network_is_there(host: str = "github.com", port: int = 443, timeout_s: float = 2.0) -> bool:
    """Whether a TCP connection to ``host`` can be opened within ``timeout_s``; asked once per process.

    With HTTPS_PROXY set, the proxy is asked instead: downloads go through it. YOLO_OFFLINE is taken at its word.
    Name resolution has no timeout of its own, so the attempt runs in a thread that is not waited for any longer.
    """
    if os.environ.get("YOLO_OFFLINE", "").lower() in {"1", "true"}:
        return False
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    if proxy:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        host, port = parts.hostname or host, parts.port or 80
    answers: list[bool] = []

    def connect() -> None:
        try:
            with socket.create_connection((host, port), timeout=timeout_s):
                answers.append(True)
        except OSError:
            answers.append(False)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return bool(answers) and answers[0]


# ---- what Ultralytics keeps where


@functools.cache
def package_root() -> Path | None:
    """The folder of the installed ultralytics package; None where it isn't installed. Doesn't import it."""
    spec = importlib.util.find_spec("ultralytics")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


@functools.cache
def _package_yamls() -> tuple[Path, ...]:
    """Every YAML file that the package ships under cfg/."""
    root = package_root()
    return tuple(sorted((root / "cfg").rglob("*.yaml"))) if root else ()


def package_yaml(name: str) -> Path | None:
    """The package's own file of that name (``coco8.yaml``, ``yolov8.yaml``, ``models/v8/yolov8.yaml``), or None."""
    parts = Path(name).parts
    return next((path for path in _package_yamls() if parts and path.parts[-len(parts) :] == parts), None)


def package_datasets() -> tuple[Path, ...]:
    """The dataset descriptions that the package ships."""
    return tuple(path for path in _package_yamls() if path.parent.name == "datasets")


def settings_path() -> Path:
    """The user's Ultralytics settings.json, whether or not it exists."""
    return environment.user_config_folder() / "settings.json"


def settings() -> Mapping[str, str] | None:
    """What a run reads of the person's settings, in words; None where that can't be told from the file's text alone.

    A settings.json that isn't there is one that says the installed version's defaults: the first run writes it so. What says where runs
    are written, or whose they are, is left out.
    """
    defaults = _default_settings()
    try:
        said = json.loads(settings_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        said = defaults
    except (OSError, ValueError):
        return None
    if not defaults or not isinstance(said, dict) or said.keys() != defaults.keys():  # Ultralytics writes such a file anew
        return None
    read = {key: str(said[key]) for key, value in defaults.items() if value is not None}
    return {**read, "datasets_dir": str(datasets_dir()), "weights_dir": str(weights_dir())}


@functools.lru_cache(maxsize=1)
def _default_settings() -> Mapping[str, Any]:
    """The installed version's default settings; None stands for one that it works out (a folder, a number for the machine)."""
    root = package_root()
    with contextlib.suppress(OSError, SyntaxError):
        for node in ast.walk(ast.parse((root / "utils" / "__init__.py").read_text(encoding="utf-8") if root is not None else "")):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "self.defaults" and isinstance(node.value, ast.Dict):
                pairs = zip(node.value.keys, node.value.values, strict=True)
                return {ast.literal_eval(key): value.value if isinstance(value, ast.Constant) else None for key, value in pairs if key}
    return {}


def _setting(key: str) -> str | None:
    try:
        value = json.loads(settings_path().read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return None
    return value if isinstance(value, str) and value else None


def _git_root() -> Path | None:
    """The git checkout that the package lies in, if any: Ultralytics' default folders hang on it."""
    root = package_root()
    return next((folder for folder in root.resolve().parents if (folder / ".git").exists()), None) if root else None


def datasets_dir() -> Path:
    """Where Ultralytics looks for datasets named by a relative path: the user's setting, or its default."""
    if value := _setting("datasets_dir"):
        return Path(value)
    root = _git_root()
    base = Path() if root is None else root.parent if os.access(root.parent, os.W_OK) else root
    return base.resolve() / "datasets"


def weights_dir() -> Path:
    """Where Ultralytics looks for weights after the given path: the user's setting, or its default."""
    return Path(_setting("weights_dir") or (_git_root() or Path()) / "weights")


def _assets() -> Iterator[str]:
    """``GITHUB_ASSETS_NAMES`` of ``utils/downloads.py``, by the same rules."""
    for k in "nsmlx":
        yield from (f"yolov8{k}{task}.pt" for task in ("", "-cls", "-seg", "-pose", "-obb", "-oiv7"))
        yield from (f"yolo11{k}{task}.pt" for task in ("", "-cls", "-seg", "-pose", "-obb"))
        yield f"yolo12{k}.pt"
        yield from (f"yolo26{k}{task}.pt" for task in ("", "-cls", "-seg", "-sem", "-pose", "-obb", "-depth"))
        yield from (f"yolo26{k}-objv1{task}.pt" for task in ("-150", "-seg"))
        yield from (f"yolo26{k}-distill.pt", f"yolo26{k}-sem-ade20k.pt", f"yolo26{k}-reid.onnx")
        yield from (f"yolov5{k}u.pt", f"yolov5{k}6u.pt")
        yield from (f"yoloe-26{k}{task}.pt" for task in ("-seg", "-seg-pf"))
    for k in "smlx":
        yield from (f"yolov8{k}-world.pt", f"yolov8{k}-worldv2.pt")
    for k in "sml":
        yield from (f"yoloe-{family}{k}{task}.pt" for family in ("v8", "11") for task in ("-seg", "-seg-pf"))
        yield f"yolo_nas_{k}.pt"
    yield from (f"yolov3{k}u.pt" for k in ("", "-spp", "-tiny"))
    yield from (f"yolov9{k}.pt" for k in "tsmce")
    yield from (f"yolov9{k}-seg.pt" for k in "ce")
    yield from (f"yolov10{k}.pt" for k in "nsmblx")
    yield from (f"sam_{k}.pt" for k in "bl")
    yield from (f"{family}_{k}.pt" for family in ("sam2", "sam2.1") for k in "blst")
    yield from (f"FastSAM-{k}.pt" for k in "sx")
    yield from (f"rtdetr-{k}.pt" for k in "lx")
    yield from ("mobile_sam.pt", "mobileclip_blt.ts", "mobileclip2_b.ts", "yolo11n-grayscale.pt", "yolov8x-pose-p6.pt")
    yield "calibration_image_sample_data_20x128x128x3_float32.npy.zip"


ASSETS = frozenset(_assets())
"""Every file that Ultralytics 8.4 downloads by name."""
