"""Tiny models and data for the transformers tests, made once for a session and never changed: a Whisper with speech, a Llama with sums."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from autofit_launcher.config.schema import Recipe
from tests.helpers.places import EXAMPLES, ROOT


def maker(name: str) -> ModuleType:
    """An example's own maker, by path: the tests use what the demos use."""
    return _loaded(name, f"make_{name}")


def script(name: str) -> ModuleType:
    """An example's own training script."""
    return _loaded(name, "train")


def _loaded(example: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{example}_{name}", EXAMPLES / example / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their types up there
    spec.loader.exec_module(module)
    return module


def make_spoken(root: Path, *, train: int = 24, validation: int = 10) -> Path:
    """Folder with train/, validation/ and model/."""
    example = maker("speech")
    rng = random.Random(0)
    example.make_audio(root / "train", train, rng)
    example.make_audio(root / "validation", validation, rng)
    example.make_model(root / "model", ["one two three four five six seven eight nine zero"] * 4)
    return root


def make_sums(root: Path, *, train: int = 400, validation: int = 200) -> Path:
    """Folder with train.jsonl, validation.jsonl and model/."""
    example = maker("text")
    root.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    example.make_table(root / "train.jsonl", train, rng)
    example.make_table(root / "validation.jsonl", validation, rng)
    rows = [json.loads(line) for line in (root / "train.jsonl").read_text().splitlines()]
    example.make_model(root / "model", [row["prompt"] + row["completion"] for row in rows])
    return root


@pytest.fixture(scope="session")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Speech and a tiny Whisper; read only."""
    pytest.importorskip("transformers")
    return make_spoken(tmp_path_factory.mktemp("spoken") / "data")


@pytest.fixture(scope="session")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts and a tiny Llama; read only."""
    pytest.importorskip("transformers")
    return make_sums(tmp_path_factory.mktemp("sums") / "data")


def trainer(task: str, args: dict[str, Any]) -> dict[str, Any]:
    """``trainer=text`` or ``trainer=speech``, with ``args`` as the script's flags."""
    text = (ROOT / "conf" / "trainer" / f"{task}.yaml").read_text(encoding="utf-8")
    said = yaml.safe_load(text.replace("${autofit:python}", sys.executable).replace("${autofit:examples}", str(EXAMPLES)))
    said["args"]["set"] |= {f"--{name}": value for name, value in args.items()}
    return dict(said)


ORDER = {
    "speech": ("val_micro_batch", "generation_length", "micro_batch", "checkpointing"),
    "text": ("val_keeps", "val_micro_batch", "micro_batch", "sequence_length", "checkpointing"),
}


def recipe(data: Path | str, task: str, *, ask: dict[str, Any] | None = None, args: dict[str, Any] | None = None, **more: Any) -> Recipe:
    """A small recipe of ``trainer=text`` or ``trainer=speech``. ``args``: the script's flags."""
    length, own = ({"generation_length": 16}, {"language": "en"}) if task == "speech" else ({"sequence_length": 128}, {"packing": True})
    wheels = yaml.safe_load((ROOT / "conf" / "ladder" / f"{task}.yaml").read_text(encoding="utf-8"))["wheels"]
    wheels[next(iter(length))]["values"] = [64] if task == "text" else []
    rules = {name: {key: tuple(one) if isinstance(one, list) else one for key, one in rule.items()} for name, rule in wheels.items()}
    asked = {"model": f"{data}/model", "micro_batch": 4, "accumulation": 1, "checkpointing": False, "val_micro_batch": 4}
    said = {
        "name": "mine", "data": str(data), "ask": {**asked, **length, **(ask or {})}, "device": {"kind": "cpu"},
        "trainer": trainer(task, {"max_steps": 2, **own, **(args or {})}), "ladder": {"order": ORDER[task], "wheels": rules},
    }  # fmt: skip
    return Recipe.model_validate({**said, **more})
