"""A person's script with transformers' Trainer: a small encoder that sorts rows of numbers, with or without dropout."""

from __future__ import annotations

import argparse

import torch
from transformers import Trainer, TrainingArguments, set_seed

LENGTH, WIDTH, CLASSES = 96, 64, 4


class Net(torch.nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(64, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 512, dropout, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.head(self.layers(self.words(ids)).mean(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Data(torch.utils.data.Dataset):
    def __init__(self, rows: int, first: int) -> None:
        self._rows, self._first = rows, first

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(0, 64, (LENGTH,), generator=torch.Generator().manual_seed(self._first + index))
        return {"ids": ids, "labels": ids[0] % CLASSES}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out", default="out")
    parser.add_argument("--resume")
    said = parser.parse_args()
    set_seed(0)
    args = TrainingArguments(
        output_dir=said.out,
        per_device_train_batch_size=said.batch_size,
        per_device_eval_batch_size=64,
        gradient_accumulation_steps=said.accum,
        learning_rate=1e-3,
        max_steps=said.steps,
        eval_strategy="steps",
        eval_steps=5,
        save_strategy="steps",
        save_steps=5,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=Net(said.dropout), args=args, train_dataset=Data(160, 0), eval_dataset=Data(64, 1000))
    trainer.train(resume_from_checkpoint=said.resume)
    print(f"steps {trainer.state.global_step}", flush=True)


if __name__ == "__main__":
    main()
