"""The separator of examples/, its batch found by accelerate's ``find_executable_batch_size`` or by Lightning's BatchSizeFinder.

python benchmarks/peers/separator.py accelerate --config CONFIG --epochs 3

Each is used as its documentation says. Every attempt prints a line ``attempt BATCH``, the end ``done BATCH``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor
from torch.utils.data import DataLoader

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "separator" / "training"
sys.path.insert(0, str(EXAMPLE))
import train as example  # noqa: E402
from model import Separator  # noqa: E402


class Work:
    """Data, model and loss, as the example's own loop has them."""

    def __init__(self, config: dict[str, Any]) -> None:
        data, self.training = config["data"], config["training"]
        root, rate = Path(data["root"]), data["sample_rate"]
        per_epoch = self.training["samples_per_epoch"]
        self.songs = example.Songs(root / "train", segment=data["segment"], per_epoch=per_epoch, mono_rate=rate)
        self.held = example.Songs(root / "valid", segment=data["segment"], per_epoch=None, mono_rate=rate)
        self.model_words = {"n_fft": data["n_fft"], "hop": data["hop"], "checkpointing": self.training["checkpointing"], **config["model"]}

    def model(self) -> torch.nn.Module:
        return Separator(stems=len(example.STEMS), **self.model_words)

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=self.training["lr"], weight_decay=0.01)

    def loaders(self, batch: int) -> tuple[DataLoader[Tensor], DataLoader[Tensor]]:
        return DataLoader(self.songs, batch, shuffle=True, drop_last=True), DataLoader(self.held, batch)


def loss_of(model: torch.nn.Module, stems: Tensor) -> Tensor:
    estimates = model(stems.sum(1))
    return (estimates - stems).abs().mean() * 10 - 0.05 * example.si_sdr(estimates, stems).clamp(max=30).mean()


def with_accelerate(work: Work, epochs: int) -> int:
    from accelerate.utils import find_executable_batch_size

    @find_executable_batch_size(starting_batch_size=work.training["batch_size"])
    def trained(batch_size: int) -> int:
        print(f"attempt {batch_size}", flush=True)
        loader, held = work.loaders(batch_size)
        model = work.model()
        optimizer = work.optimizer(model)
        for _ in range(epochs):
            model.train()
            for stems in loader:
                loss_of(model, stems).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            example.validate(model, held, "cpu")
        return batch_size

    return int(trained())


def with_lightning(work: Work, epochs: int) -> int:
    import lightning
    from lightning.pytorch.callbacks import BatchSizeFinder

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.batch_size, self.tried = work.model(), work.training["batch_size"], 0

        def train_dataloader(self) -> DataLoader[Tensor]:
            if self.batch_size != self.tried:
                print(f"attempt {self.batch_size}", flush=True)
            self.tried = self.batch_size
            return work.loaders(self.batch_size)[0]

        def val_dataloader(self) -> DataLoader[Tensor]:
            return work.loaders(self.batch_size)[1]

        def training_step(self, stems: Tensor, number: int) -> Tensor:
            return loss_of(self.net, stems)

        def validation_step(self, stems: Tensor, number: int) -> None:
            self.log("si_sdr", example.si_sdr(self.net(stems.sum(1)), stems).mean(), batch_size=len(stems))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return work.optimizer(self.net)

    module = Module()
    trainer = lightning.Trainer(
        max_epochs=epochs, callbacks=[BatchSizeFinder()], accelerator="cpu", gradient_clip_val=1.0, enable_progress_bar=False, logger=False
    )
    trainer.fit(module)
    return int(module.batch_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", choices=("accelerate", "lightning"))
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=3)
    chosen = parser.parse_args()
    torch.manual_seed(0)
    work = Work(yaml.safe_load(chosen.config.read_text()))
    found = {"accelerate": with_accelerate, "lightning": with_lightning}[chosen.who](work, chosen.epochs)
    print(f"done {found}", flush=True)


if __name__ == "__main__":
    main()
