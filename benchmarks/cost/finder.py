"""The Lightning example behind Lightning's own search for a batch size, whose steps aren't the training's first."""

from __future__ import annotations

import importlib
import runpy
import sys

import lightning
import torch
from lightning.pytorch.tuner import Tuner
from torch.utils.data import DataLoader, TensorDataset

DENOISER = runpy.run_path(sys.argv[1])["Denoiser"]


class Sized(DENOISER):  # type: ignore[misc, valid-type]
    """The example's module, with a batch size that can be turned."""

    batch_size = 28

    def train_dataloader(self) -> DataLoader[tuple[torch.Tensor, ...]]:
        wave = torch.sin(2 * torch.pi * torch.linspace(0, 1, 512) * torch.randint(2, 12, (1792, 1)))[:, None]
        return DataLoader(TensorDataset(wave + 0.3 * torch.randn_like(wave), wave), self.batch_size, shuffle=True)

    val_dataloader = train_dataloader  # it wants one


def main() -> None:
    """Searches from a sixteenth of what the example is launched with, then trains."""
    steps = importlib.import_module("cost_mark").steps
    lightning.seed_everything(0)
    model = Sized(16)
    steps.append(0)
    Tuner(lightning.Trainer(max_epochs=2, accelerator="cpu")).scale_batch_size(model, init_val=28)
    steps.clear()
    lightning.Trainer(max_epochs=2, accelerator="cpu", log_every_n_steps=1).fit(model)


if __name__ == "__main__":
    main()
