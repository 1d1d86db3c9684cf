"""Checkpoints its blocks the reentrant way, which runs a backward pass for each block inside the one that the loop asks for."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

BLOCKS = 4


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 4)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(BLOCKS))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        scores = self.last(x)
        return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}


class Data(Dataset):
    def __len__(self) -> int:
        return 640

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.full((8,), index / 640), "labels": torch.tensor(index % 4)}


def loop(said: argparse.Namespace) -> None:
    model, data = Net(), Data()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model.train()
        for number, batch in enumerate(DataLoader(data, said.batch_size, shuffle=True), start=1):
            (model(**batch)["loss"] / said.accum).backward()
            if number % said.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            print(sum(float(model(**batch)["loss"]) for batch in DataLoader(data, 64)))


def trainer(said: argparse.Namespace) -> None:
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(
        "out",
        per_device_train_batch_size=said.batch_size,
        gradient_accumulation_steps=said.accum,
        num_train_epochs=2,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(model=Net(), args=args, train_dataset=Data(), eval_dataset=Data()).train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--trainer", action="store_true")
    said = parser.parse_args()
    (trainer if said.trainer else loop)(said)
