"""A tiny language model trained with Hugging Face's Trainer on sequences of very different lengths, padded to a batch's longest."""

from dataclasses import dataclass, field

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    longest: int = field(default=64)
    width: int = field(default=64)
    rows: int = field(default=128)


class Sequences(torch.utils.data.Dataset):
    def __init__(self, rows, longest, seed):
        generator = torch.Generator().manual_seed(seed)
        lengths = (4 + torch.rand(rows, generator=generator) ** 4 * (longest - 4)).long()
        self.rows = [torch.randint(1, 500, (int(length),), generator=generator) for length in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index]}


def collate(rows):
    tokens = pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": tokens.masked_fill(tokens == 0, -100)}


def main():
    asked, args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
    torch.manual_seed(0)
    shape = {"n_positions": asked.longest, "n_embd": asked.width, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=500, **shape, bos_token_id=0, eos_token_id=0))
    train, val = Sequences(asked.rows, asked.longest, 0), Sequences(asked.rows // 4, asked.longest, 1)
    trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=val, data_collator=collate)
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
