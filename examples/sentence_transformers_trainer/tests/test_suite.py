"""What every adapter owes (autofit's shipped suite), for both losses, and what this one owes beside it. Real trials on a CPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
from autofit_sentence_transformers.adapter import SentenceTransformersAdapter
from autofit_sentence_transformers.make_pairs import make

from autofit_launcher.adapter import DeviceRules, LadderRules, Progress, Recipe, Rung, TrainerRules, WheelRule
from autofit_launcher.trainers.suite import AdapterSuite


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "pairs"
    make(folder, train=64, validation=80)
    return folder


def recipe_for(pairs: Path, *, ask: dict[str, Any], args: dict[str, Any]) -> Recipe:
    return Recipe(
        name="embeddings",
        data=str(pairs),
        ask={"model": str(pairs / "model"), "checkpointing": False, "val_micro_batch": 16, "sequence_length": 64, **ask},
        trainer=TrainerRules(adapter="sentence-transformers", args=args),
        ladder=LadderRules(order=("val_micro_batch", "micro_batch", "checkpointing"), wheels={"val_micro_batch": WheelRule(values=(8,))}),
        device=DeviceRules(kind="cpu"),
    )


class TestRanking(AdapterSuite):
    adapter_type: ClassVar[Any] = SentenceTransformersAdapter

    @pytest.fixture
    def recipe(self, pairs: Path) -> Recipe:
        return recipe_for(pairs, ask={"micro_batch": 8}, args={"batch_size": 16, "keep_best": True})


class TestSimilarity(AdapterSuite):
    adapter_type: ClassVar[Any] = SentenceTransformersAdapter

    @pytest.fixture
    def recipe(self, pairs: Path, tmp_path: Path) -> Recipe:
        return recipe_for(scored(pairs), ask={"micro_batch": 8, "accumulation": 2}, args={"loss": "similarity"})


def scored(pairs: Path) -> Path:
    """The same texts, as pairs with a score."""
    folder = pairs.with_name("scored")
    folder.mkdir(exist_ok=True)
    for name in ("train", "validation"):
        rows = [json.loads(line) for line in (pairs / f"{name}.jsonl").read_text().splitlines()]
        told = [{"sentence1": row["anchor"], "sentence2": row["positive"], "score": at % 5 / 4} for at, row in enumerate(rows)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    if not (folder / "model").exists():
        shutil.copytree(pairs / "model", folder / "model")
    return folder


def test_its_log_is_read_in_its_own_way(pairs: Path) -> None:
    adapter = SentenceTransformersAdapter(recipe_for(pairs, ask={"micro_batch": 8}, args={"batch_size": 16}))
    rung = Rung(index=0, values={"micro_batch": 8}, position=(0,), accumulation=2)
    step = adapter.read_log("{'loss': 'nan', 'grad_norm': 'nan', 'learning_rate': '1e-05', 'epoch': '0.5'}", Progress(), rung=rung)
    assert (step.loss_finite, step.progress.epoch) == (False, 0.5)
    end = adapter.read_log("{'train_runtime': '0.5', 'train_loss': '0.4', 'epoch': '1'}", step.progress, rung=rung)
    assert (end.loss_finite, end.progress) == (None, step.progress), "the mean of all steps is no news"
