"""What the ladder promises of this trainer: a lower micro-batch learns the same. And what a trial gives the trainer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from autofit_sentence_transformers.inside import trial
from autofit_sentence_transformers.make_pairs import make
from autofit_sentence_transformers.native import train_embeddings as script


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs, and a model without dropout: with it no two ways of cutting a batch draw the same zeros."""
    folder = tmp_path_factory.mktemp("still") / "pairs"
    make(folder, train=16, validation=8)
    path = folder / "model" / "config.json"
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_hidden_layers": 1}
    path.write_text(json.dumps({**json.loads(path.read_text()), **quiet}))
    return folder


def weights(own: script.Arguments, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The weights after training, on the CPU."""
    model = script.load(own)
    script.build(own, model, rows, rows[:8]).train()
    return {name: value.clone() for name, value in model.state_dict().items() if value.is_floating_point()}


def furthest(one: dict[str, Any], other: dict[str, Any]) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_a_ranking_loss_in_mini_batches_learns_what_it_learns_whole(still: Path, tmp_path: Path) -> None:
    whole = script.Arguments(
        model=str(still / "model"), data=str(still), output_dir=str(tmp_path), batch_size=16, max_steps=2, learning_rate=1e-3, use_cpu=True
    )
    rows = script.rows(whole.data, "ranking")[0]
    told = weights(whole, rows)
    assert furthest(told, weights(replace(whole, mini_batch_size=4), rows)) < 1e-4
    assert furthest(told, weights(replace(whole, batch_size=4, accumulation=4), rows)) > 1e-3, "accumulation alone would not be exact"


def test_a_loss_of_rows_accumulates_to_the_same(still: Path, tmp_path: Path) -> None:
    whole = script.Arguments(
        model=str(still / "model"), data="", output_dir=str(tmp_path), loss="similarity", batch_size=16, max_steps=2, learning_rate=1e-3,
        use_cpu=True,
    )  # fmt: skip
    pairs = script.rows(str(still), "ranking")[0]
    rows = [{"sentence1": row["anchor"], "sentence2": row["positive"], "score": at % 5 / 4} for at, row in enumerate(pairs)]
    assert furthest(weights(whole, rows), weights(replace(whole, batch_size=4, accumulation=4), rows)) < 1e-4


def test_the_worst_row_has_the_longest_text_of_each_column() -> None:
    def words(texts: list[str]) -> list[list[int]]:
        return [[0] * len(text.split()) for text in texts]

    rows = [{"anchor": "a b c", "positive": "d"}, {"anchor": "e", "positive": "f g h i"}, {"anchor": "j k", "positive": "l m"}]
    longest, shortest = trial.extremes(rows, words)
    assert longest == {"anchor": "a b c", "positive": "f g h i"} and shortest == {"anchor": "e", "positive": "d"}


def test_copies_take_the_memory_of_real_rows() -> None:
    import numpy as np
    import torch

    kept = trial.copies(torch.arange(6.0).reshape(3, 2), 8)
    assert kept.shape == (8, 2) and kept[7].tolist() == [2.0, 3.0] and kept.untyped_storage().nbytes() == 8 * 2 * 4
    assert trial.copies(np.zeros((2, 3)), 5).shape == (5, 3)
