"""Makes questions with their answers, and a tiny language model to fine-tune on them: seconds, no network, no weights needed.

    python make_text.py FOLDER [--rows 64 --tokens 2048 --like Qwen/Qwen2.5-7B --no-weights]

FOLDER/train.jsonl and FOLDER/validation.jsonl: rows with ``prompt`` and ``completion``, each of --tokens or more where that is said.
FOLDER/model: a Llama of about a million parameters, or of the shape of a model that is --like it, built from its configuration, with a
tokenizer trained on the questions; with --no-weights that is all there is. FOLDER/models/NAME: such ones of the shapes of --models, without
weights, which train.py takes before the hub's. FOLDER appears only when it is whole.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TRAIN, VALIDATION = 2400, 2400
TINY = {
    "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "tie_word_embeddings": True,
}  # fmt: skip
"""The demo's Llama, in LlamaConfig's words."""


def _qwen(hidden: int, inner: int, layers: int, heads: int, shared: int, vocabulary: int = 151_936) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": shared, "max_position_embeddings": 32_768,
        "tie_word_embeddings": hidden < 3000,
    }  # fmt: skip


SHAPES: Mapping[str, Mapping[str, Any]] = {
    "tiny": TINY,
    "Qwen/Qwen2.5-7B": _qwen(3584, 18944, 28, 28, 4, 152_064),
    "Qwen/Qwen2.5-3B": _qwen(2048, 11008, 36, 16, 2),
    "Qwen/Qwen2.5-1.5B": _qwen(1536, 8960, 28, 12, 2),
}
"""Name on the hub -> its shape (without the biases of Qwen2)."""
MOST = 20
"""Numbers in the questions are below this."""


def question(rng: random.Random) -> dict[str, str]:
    """One question and its answer."""
    a, b = rng.randrange(MOST), rng.randrange(MOST)
    word, result = rng.choice((("plus", a + b), ("minus", a - b), ("times", a * b)))
    return {"prompt": f"Question: how much is {a} {word} {b}?\nAnswer:", "completion": f" {a} {word} {b} is {result}."}


def make_table(path: Path, count: int, rng: random.Random, *, tokens: int = 0) -> None:
    """``count`` questions, one JSON object a line; each answer as often as makes ``tokens`` of its text (it has five or more of them)."""
    rows = (question(rng) for _ in range(count))
    longer = ({**row, "completion": row["completion"] * max(1, math.ceil(tokens / 5))} for row in rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in longer), encoding="utf-8")


def tokenizer(texts: list[str]) -> Any:
    """A byte-level tokenizer trained on ``texts``."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=512, min_frequency=2, special_tokens=["<|pad|>", "<|end|>"], show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|end|>", pad_token="<|pad|>")


def make_model(folder: Path, texts: list[str], shape: Mapping[str, Any] = TINY, *, weights: bool = True) -> None:
    """A Llama of ``shape`` with its tokenizer; random weights, the same at every call, or none."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer(texts)
    torch.manual_seed(0)
    config = LlamaConfig(
        **{"vocab_size": len(words), **shape}, bos_token_id=None, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
        architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    (LlamaForCausalLM(config) if weights else config).save_pretrained(folder)
    words.save_pretrained(folder)


def make(
    target: Path, *, rows: int | None = None, tokens: int = 0, like: str = "tiny", weights: bool = True, models: Sequence[str] = ()
) -> None:
    """Makes everything beside ``target`` and moves it there whole."""
    beside = target.with_name(f"{target.name}.making")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    rng = random.Random(0)
    make_table(beside / "train.jsonl", rows or TRAIN, rng, tokens=tokens)
    make_table(beside / "validation.jsonl", rows or VALIDATION, rng, tokens=tokens)
    read = [json.loads(line) for line in (beside / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [row["prompt"] + row["completion"] for row in read]
    make_model(beside / "model", texts, SHAPES[like], weights=weights)
    for name in models:
        make_model(beside / "models" / name, texts, SHAPES[name], weights=False)
    beside.rename(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, help=f"of each table, instead of {TRAIN}")
    parser.add_argument("--tokens", type=int, default=0, help="least length of a row")
    parser.add_argument("--like", choices=SHAPES, default="tiny", help="the model whose shape it has")
    parser.add_argument("--no-weights", dest="weights", action="store_false", help="a configuration and a tokenizer alone")
    parser.add_argument("--models", choices=SHAPES, nargs="+", default=[], help="other models, without weights")
    chosen = vars(parser.parse_args())
    make(chosen.pop("folder"), **chosen)
