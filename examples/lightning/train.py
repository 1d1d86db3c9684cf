"""A Lightning module that reconstructs noise-free waves. It knows nothing of autofit."""

from __future__ import annotations

import argparse

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Denoiser(lightning.LightningModule):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 9, padding=4),
            nn.GELU(),
            nn.Conv1d(width, width, 9, padding=4),
            nn.GELU(),
            nn.Conv1d(width, 1, 9, padding=4),
        )

    def step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        noisy, clean = batch
        return nn.functional.mse_loss(self.net(noisy), clean)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> torch.Tensor:
        return self.step(batch)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> None:
        self.log("val_loss", self.step(batch), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--accumulate_grad_batches", type=int, default=1)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--devices", default="auto")
    args = parser.parse_args()

    lightning.seed_everything(0)
    time = torch.linspace(0, 1, 512)
    clean = torch.sin(2 * torch.pi * time * torch.randint(2, 12, (2048, 1)))[:, None]
    data = TensorDataset(clean + 0.3 * torch.randn_like(clean), clean)
    train, val = torch.utils.data.random_split(data, [1792, 256])
    trainer = lightning.Trainer(
        max_epochs=args.epochs, accumulate_grad_batches=args.accumulate_grad_batches, check_val_every_n_epoch=2, log_every_n_steps=1,
        devices=args.devices,
    )  # fmt: skip
    trainer.fit(Denoiser(args.width), DataLoader(train, args.batch_size, shuffle=True), DataLoader(val, args.batch_size))


if __name__ == "__main__":
    main()
