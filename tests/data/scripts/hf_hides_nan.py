"""A person's Hugging Face Trainer, as the docs show it; --nan-from breaks its loss from a step on."""

import argparse

import torch
from transformers import Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=8)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--output_dir", default="out")
parser.add_argument("--save_strategy", default="no")
parser.add_argument("--nan-from", type=int, default=10**9)
args = parser.parse_args()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
        self.calls = 0

    def forward(self, x, labels=None):
        self.calls += self.training
        loss = (self.layer(x) - labels).square().mean()
        if self.calls >= args.nan_from:
            loss = loss * float("nan")
        return {"loss": loss}


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, index):
        x = torch.full((64,), index / 2048)
        return {"x": x, "labels": x * 2}


arguments = TrainingArguments(
    args.output_dir,
    per_device_train_batch_size=args.per_device_train_batch_size,
    gradient_accumulation_steps=args.gradient_accumulation_steps,
    num_train_epochs=1,
    logging_steps=32,
    save_strategy=args.save_strategy,
    report_to=[],
    use_cpu=True,
)
trainer = Trainer(Model(), arguments, train_dataset=Data())
trainer.train()
