"""Makes questions with their answers, and a tiny language model to fine-tune on them: seconds, no network, no weights needed.

    python make_text.py FOLDER

FOLDER/train.jsonl and FOLDER/validation.jsonl: rows with ``prompt`` and ``completion``. FOLDER/model: a Llama of about a million parameters
built from its configuration, with a tokenizer trained on the questions. FOLDER appears only when it is whole.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

TRAIN, VALIDATION = 2400, 2400
POSITIONS = 512
MOST = 20
"""Numbers in the questions are below this."""


def question(rng: random.Random) -> dict[str, str]:
    """One question and its answer."""
    a, b = rng.randrange(MOST), rng.randrange(MOST)
    word, result = rng.choice((("plus", a + b), ("minus", a - b), ("times", a * b)))
    return {"prompt": f"Question: how much is {a} {word} {b}?\nAnswer:", "completion": f" {a} {word} {b} is {result}."}


def make_table(path: Path, count: int, rng: random.Random) -> None:
    """``count`` questions, one JSON object a line."""
    path.write_text("".join(json.dumps(question(rng)) + "\n" for _ in range(count)), encoding="utf-8")


def tokenizer(texts: list[str]) -> Any:
    """A byte-level tokenizer trained on ``texts``."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=512, min_frequency=2, special_tokens=["<|pad|>", "<|end|>"], show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|end|>", pad_token="<|pad|>")


def make_model(folder: Path, texts: list[str]) -> None:
    """A Llama of about a million parameters with its tokenizer; random weights, the same at every call."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer(texts)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=POSITIONS, bos_token_id=None, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
        tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)


def make(target: Path) -> None:
    """Makes everything beside ``target`` and moves it there whole."""
    beside = target.with_name(f"{target.name}.making")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    rng = random.Random(0)
    make_table(beside / "train.jsonl", TRAIN, rng)
    make_table(beside / "validation.jsonl", VALIDATION, rng)
    rows = [json.loads(line) for line in (beside / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    make_model(beside / "model", [row["prompt"] + row["completion"] for row in rows])
    beside.rename(target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python make_text.py FOLDER")
    make(Path(sys.argv[1]))
