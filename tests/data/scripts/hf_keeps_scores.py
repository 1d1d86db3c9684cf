"""Hugging Face's Trainer with metrics of its own: the scores of the whole evaluation are kept, and joined anew at each batch."""

from __future__ import annotations

import argparse

import torch
from transformers import Trainer, TrainingArguments

CLASSES, ROWS = 16384, 120


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.head(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


class Data(torch.utils.data.Dataset):
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.full((8,), index / self.rows), "labels": torch.tensor(index % CLASSES)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--val-rows", type=int, default=ROWS)
    parser.add_argument("--out", default="out")
    said = parser.parse_args()
    args = TrainingArguments(
        said.out,
        per_device_train_batch_size=said.batch_size,
        per_device_eval_batch_size=16,
        gradient_accumulation_steps=said.accum,
        num_train_epochs=1,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    right = lambda kept: {"right": float((kept.predictions.argmax(-1) == kept.label_ids).mean())}  # noqa: E731
    trainer = Trainer(model=Net(), args=args, train_dataset=Data(ROWS), eval_dataset=Data(said.val_rows), compute_metrics=right)
    trainer.train()


if __name__ == "__main__":
    main()
