"""Finds the model of a name: a folder of this machine, a model in the hub's cache, or one on the hub. Downloads nothing."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from launcher.errors import Fault
from launcher.machine import install

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "tokenizer.model", "spiece.model", "vocab.txt", "tekken.json")
_FEATURE_FILES = ("preprocessor_config.json", "processor_config.json")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A model and where it is."""

    name: str
    place: Literal["folder", "cache", "hub", "unreachable", "nowhere"]
    path: Path | None = None
    """Its folder, for ``folder`` and ``cache``."""
    why: str = ""
    """For ``unreachable`` (the hub may have it, but can't be asked) and ``nowhere``: what was found."""
    cure: str = ""

    @property
    def local(self) -> bool:
        return self.path is not None


def locate(name: str) -> Model:
    """Finds a model. The hub is asked once whether it has ``name``, and only if that is neither a folder nor in its cache."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return Model(name=name, place="folder", path=folder)
    if not _HUB_NAME.fullmatch(name) or name.startswith((".", "/", "~")):
        return Model(
            name=name,
            place="nowhere",
            why=f"{name}: there is no such folder",
            cure="Name a model's folder, or a model on the hub (owner/name).",
        )
    if (cached := _cached(name)) is not None:
        return Model(name=name, place="cache", path=cached)
    return _on_the_hub(name)


def _cached(name: str) -> Path | None:
    """The folder in the hub's cache (layout of huggingface_hub: models--OWNER--NAME/snapshots/REVISION)."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    try:
        revision = (cache / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    snapshot = cache / "snapshots" / revision
    return snapshot if (snapshot / "config.json").exists() and _has(snapshot, _WEIGHTS) else None


@lru_cache(maxsize=32)
def _on_the_hub(name: str) -> Model:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "TRUE", "YES", "ON"}:
        return Model(
            name=name, place="unreachable", why=f"{name} is neither a folder nor in the hub's cache, and HF_HUB_OFFLINE is set", cure=_FETCH
        )
    try:
        from huggingface_hub import errors as hub
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
    except ImportError:
        return Model(name=name, place="nowhere", why="huggingface_hub is not installed", cure=f"{install.extra('transformers')}.")
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=10)
    except hub.GatedRepoError:
        return Model(
            name=name,
            place="nowhere",
            why=f"{name} is gated: its owner grants access",
            cure="Accept its terms on its page, then log in: hf auth login.",
        )
    except hub.RepositoryNotFoundError:
        return Model(
            name=name,
            place="nowhere",
            why=f"the hub has no model {name}, or it is private",
            cure="Correct the name, or log in: hf auth login.",
        )
    except hub.EntryNotFoundError:
        return Model(name=name, place="nowhere", why=f"{name} has no config.json", cure="Name a transformers model.")
    except Exception as error:  # whatever stands between us and the hub: no network, a proxy, a broken certificate
        return Model(
            name=name,
            place="unreachable",
            why=f"{name} is neither a folder nor in the hub's cache, and the hub can't be reached ({type(error).__name__})",
            cure=_FETCH,
        )
    return Model(name=name, place="hub")


_FETCH = "Fetch it where there is a network (hf download NAME), or name a folder that holds it."


def config_of(model: Model) -> dict[str, Any]:
    """Its config.json; empty if it isn't here or can't be read."""
    return read_json(model.path / "config.json") if model.path is not None else {}


def window_seconds(model: Model) -> float:
    """Seconds of audio that a Whisper-shaped model takes; 30, as Whisper, if its files don't say."""
    for name in reversed(_FEATURE_FILES):
        said = read_json(model.path / name) if model.path is not None else {}
        extractor = said.get("feature_extractor", said)
        if isinstance(extractor, dict) and isinstance(extractor.get("chunk_length"), (int, float)):
            return float(extractor["chunk_length"])
    return 30.0


def faults(model: Model, *, key: str, task: str) -> list[Fault]:
    """Faults of a model, as far as its files tell. A fall-back that is only on the hub is no fault: ``fetch`` downloads it."""
    if model.place == "nowhere" or (model.place == "unreachable" and key == "ask.model"):
        return [Fault(key=key, found=model.why, cure=model.cure)]
    if model.path is None:
        return []
    found = []
    config = config_of(model)
    if not config:
        found.append(
            Fault(key=key, found=f"{model.path} has no config.json that can be read", cure="Name the folder of a transformers model.")
        )
    elif task == "speech" and config.get("model_type") != "whisper":
        found.append(
            Fault(
                key=key, found=f"{model.name} is a {config.get('model_type')} model", cure="The speech trainer knows Whisper-shaped models."
            )
        )
    if not _has(model.path, _TOKENIZER_FILES):
        found.append(
            Fault(
                key=key,
                found=f"{model.path} has no tokenizer ({', '.join(_TOKENIZER_FILES[:3])}, ...)",
                cure="Save the tokenizer there too: tokenizer.save_pretrained(folder).",
            )
        )
    if task == "speech" and not _has(model.path, _FEATURE_FILES):
        found.append(
            Fault(
                key=key,
                found=f"{model.path} has no feature extractor ({' or '.join(_FEATURE_FILES)})",
                cure="Save it there too: processor.save_pretrained(folder).",
            )
        )
    if not _has(model.path, _WEIGHTS):
        found.append(
            Fault(
                key=key,
                found=f"{model.path} has no weights ({' or '.join(_WEIGHTS)})",
                cure="Save the model there too: model.save_pretrained(folder).",
            )
        )
    return found


def _has(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(next(folder.glob(pattern), None) is not None for pattern in patterns)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if it can't be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
