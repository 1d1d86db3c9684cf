"""A tiny language model trained with Hugging Face's Trainer on generated text, offline. It knows nothing of autofit."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class DataArguments:
    block_size: int = field(default=64)
    samples: int = field(default=512)


class Counting(torch.utils.data.Dataset):
    """Arithmetic progressions modulo 97: what comes next can be learnt."""

    def __init__(self, samples: int, length: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        start, stride = torch.randint(97, (2, samples, 1), generator=generator)
        self.tokens = (start + stride * torch.arange(length)) % 97

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main() -> None:
    data, args = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=data.block_size, n_embd=64, n_layer=2, n_head=2))
    train, val = Counting(data.samples, data.block_size, 0), Counting(data.samples // 4, data.block_size, 1)
    trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=val)
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model()


if __name__ == "__main__":
    main()
