"""Takes a folder's name; makes questions with their answers there, and a tiny BERT to train on them: seconds, no network, no weights.

    python -m autofit_sentence_transformers.make_pairs FOLDER

FOLDER/train.jsonl and FOLDER/validation.jsonl: rows with ``anchor`` and ``positive``; FOLDER/model: a BERT of about half a million
parameters built from its configuration, with a tokenizer trained on the texts. FOLDER appears only when it is whole.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TRAIN, VALIDATION = 480, 96
POSITIONS = 128
THINGS = ["lamp", "kettle", "bridge", "garden", "piano", "ladder", "rocket", "window", "bottle", "pocket", "carpet", "hammer"]
PLACES = ["attic", "harbour", "kitchen", "meadow", "station", "library", "cellar", "market", "tower", "valley"]


def pair(rng: random.Random) -> dict[str, str]:
    """A question and what answers it; the answers' lengths differ, as texts do."""
    thing, place, count = rng.choice(THINGS), rng.choice(PLACES), rng.randrange(2, 40)
    told = " ".join(f"beside a {rng.choice(THINGS)}" for _ in range(rng.randrange(1, 20)))
    return {"anchor": f"where are the {count} {thing}s", "positive": f"the {place} holds {count} {thing}s {told}"}


def table(path: Path, rows: Sequence[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def tokenizer(texts: Sequence[str]) -> Any:
    """A word-piece tokenizer trained on ``texts``."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import PreTrainedTokenizerFast

    trained = BertWordPieceTokenizer()
    trained.train_from_iterator(texts, vocab_size=600, min_frequency=1, show_progress=False)
    names = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, model_max_length=POSITIONS, **names)


def make_model(folder: Path, texts: Sequence[str]) -> None:
    """A BERT with its tokenizer; random weights, the same at every call. sentence-transformers adds mean pooling when it loads it."""
    import torch
    from transformers import BertConfig, BertModel

    words = tokenizer(texts)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=96, num_hidden_layers=4, num_attention_heads=4, intermediate_size=384,
        max_position_embeddings=POSITIONS, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    words.save_pretrained(folder)


def make(target: Path, *, train: int = TRAIN, validation: int = VALIDATION) -> None:
    """Makes everything beside ``target`` and moves it there whole."""
    beside = target.with_name(f"{target.name}.making")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    rng = random.Random(0)
    rows = [pair(rng) for _ in range(train + validation)]
    table(beside / "train.jsonl", rows[:train])
    table(beside / "validation.jsonl", rows[train:])
    make_model(beside / "model", [text for row in rows for text in row.values()])
    beside.rename(target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m autofit_sentence_transformers.make_pairs FOLDER")
    make(Path(sys.argv[1]))
