"""Masked tokens, drawn by a collate function. ``--kind`` says with what it draws; ``trainer``: BERT under transformers' Trainer."""

from __future__ import annotations

import argparse
import random
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--kind", default="numpy")
parser.add_argument("--even", action="store_true", help="all rows are as long, and differ by what is masked alone")
args = parser.parse_args()

torch.manual_seed(0)
MASK, TOKENS = 1, 40
ROWS = [{"input_ids": torch.randint(4, TOKENS, (16 if args.even else int(torch.randint(6, 24, (1,))),)).tolist()} for _ in range(128)]
private = np.random.default_rng(3)


def drawn(shape: tuple[int, ...]) -> Any:
    """Which tokens are masked, for all rows at once."""
    if args.kind == "numpy":
        return torch.from_numpy(np.random.binomial(1, np.full(shape, 0.3)).astype(bool))
    if args.kind == "private":
        return torch.from_numpy(private.random(shape) < 0.3)
    return torch.bernoulli(torch.full(shape, 0.3), generator=torch.Generator().manual_seed(5)).bool()


def collated(rows: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    known = "input_ids" in rows[0]  # taken to look at it, as transformers' own do
    longest = max(len(row["input_ids"]) for row in rows) if known else 0
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    chosen = torch.zeros(len(rows), longest, dtype=torch.bool)
    for at, row in enumerate(rows):
        ids[at, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
        if args.kind == "python":
            chosen[at, : len(row["input_ids"])] = torch.tensor([random.random() < 0.3 for _ in row["input_ids"]])
    if args.kind != "python":
        chosen = drawn((len(rows), longest))
    chosen[:, 0] = True
    chosen &= ids != 0
    words = torch.randint(4, TOKENS, (len(rows), longest))
    flipped = torch.rand(len(rows)) < 0.5
    masked = torch.where(flipped[:, None], words, torch.full_like(words, MASK))
    if random.random() < 0.5:  # one draw for all of them
        masked = masked.clone()
    return torch.where(chosen, masked, ids), ids.masked_fill(~chosen, -100)


def plain() -> None:
    net = nn.Sequential(nn.Embedding(TOKENS, 16), nn.Dropout(0.2), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, TOKENS))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    batches = 0
    for _ in range(args.epochs):
        for ids, labels in DataLoader(ROWS, args.batch_size, shuffle=True, collate_fn=collated):  # type: ignore[arg-type]
            (functional.cross_entropy(net(ids).flatten(0, 1), labels.flatten()) / args.accum).backward()
            batches += 1
            if batches % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()


def trainer() -> None:
    import transformers
    from tokenizers import Tokenizer, models

    words = {name: number for number, name in enumerate(["[PAD]", "[MASK]", "[CLS]", "[SEP]", *map(str, range(4, TOKENS))])}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="[PAD]")),
        pad_token="[PAD]", mask_token="[MASK]", cls_token="[CLS]", sep_token="[SEP]",
    )  # fmt: skip
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": TOKENS}
    model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes, max_position_embeddings=64))
    transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir="out", per_device_train_batch_size=args.batch_size, gradient_accumulation_steps=args.accum,
            num_train_epochs=args.epochs, save_strategy="no", report_to=[], use_cpu=True,
        ),
        train_dataset=ROWS,  # type: ignore[arg-type]
        data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3),
    ).train()  # fmt: skip


trainer() if args.kind == "trainer" else plain()
