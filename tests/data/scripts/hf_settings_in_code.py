"""Hugging Face's Trainer with its settings in the code, as people write it: a dict, and no word on the command line."""

from __future__ import annotations

import torch
from transformers import Trainer, TrainingArguments

CONFIG = {"batch_size": 32, "learning_rate": 0.05, "epochs": 2}
ROWS, WIDTH = 96, 4096


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(WIDTH, 64), torch.nn.Linear(64, WIDTH)])

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        wide = [torch.tanh(self.layers[1](torch.tanh(self.layers[0](x))) * factor) for factor in (1.0, 0.5, 0.25, 2.0)]
        return {"loss": torch.nn.functional.mse_loss(sum(wide), labels)}


class Data(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        drawn = torch.Generator().manual_seed(index)
        return {"x": torch.rand(64, WIDTH, generator=drawn), "labels": torch.rand(64, WIDTH, generator=drawn)}


def main() -> None:
    torch.manual_seed(0)
    steps = ROWS // CONFIG["batch_size"] * CONFIG["epochs"]
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=CONFIG["batch_size"],
        per_device_eval_batch_size=4,
        learning_rate=CONFIG["learning_rate"],
        num_train_epochs=CONFIG["epochs"],
        warmup_steps=steps // 3,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=Net(), args=args, train_dataset=Data(), eval_dataset=torch.utils.data.Subset(Data(), range(8)))
    trainer.train()
    torch.save(trainer.model.state_dict(), "weights.pt")
    print(f"steps {trainer.state.global_step}", flush=True)


if __name__ == "__main__":
    main()
