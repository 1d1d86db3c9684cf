"""Tiny models and data for the transformers tests, made once for a session and never changed: a Whisper with speech, a Llama with sums."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from launcher.config.schema import Recipe
from tests.helpers.places import EXAMPLES


def maker(name: str) -> ModuleType:
    """An example's own maker, by path: the tests use what the demos use."""
    spec = importlib.util.spec_from_file_location(f"make_{name}", EXAMPLES / name / f"make_{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
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


def recipe(data: Path | str, task: str, *, ask: dict[str, Any] | None = None, args: dict[str, Any] | None = None, **more: Any) -> Recipe:
    """A small recipe that the adapter's check accepts."""
    usual: dict[str, dict[str, Any]] = {
        "speech": {"generation_length": 16, "val_micro_batch": 4},
        "text": {"sequence_length": 128, "val_micro_batch": 4},
    }
    order = {
        "speech": ("val_micro_batch", "generation_length", "micro_batch", "checkpointing"),
        "text": ("val_keeps", "val_micro_batch", "micro_batch", "sequence_length", "checkpointing"),
    }
    own = {"language": "en"} if task == "speech" else {"packing": True}
    return Recipe.model_validate(
        {
            "name": "mine",
            "data": str(data),
            "ask": {
                "model": f"{data}/model",
                "micro_batch": 4,
                "accumulation": 1,
                "checkpointing": False,
                **usual.get(task, {}),
                **(ask or {}),
            },
            "trainer": {"adapter": "transformers", "task": task, "args": {"max_steps": 2, **own, **(args or {})}},
            "ladder": {
                "order": order.get(task, ("micro_batch",)),
                "wheels": {"generation_length": {"values": ()}, "sequence_length": {"values": (64,)}},
            },
            "device": {"kind": "cpu"},
            **more,
        }
    )
