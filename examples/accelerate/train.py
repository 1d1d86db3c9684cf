"""A regression with Hugging Face accelerate: gradient accumulation by its context, metrics gathered. It knows nothing of autofit."""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
    x = torch.randn(4096, 64)
    data = TensorDataset(x, torch.sin(x.sum(1, keepdim=True)))
    train, val = torch.utils.data.random_split(data, [3584, 512])
    layers = [layer for _ in range(8) for layer in (nn.Linear(args.width, args.width), nn.GELU())]
    model = nn.Sequential(nn.Linear(64, args.width), nn.GELU(), *layers, nn.Linear(args.width, 1))
    model, optimizer, train_loader, val_loader = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        DataLoader(train, args.batch_size, shuffle=True),
        DataLoader(val, args.batch_size),
    )
    for epoch in range(args.epochs):
        model.train()
        for inputs, targets in train_loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        losses = []
        for inputs, targets in val_loader:
            with torch.no_grad():
                losses.append(accelerator.gather(nn.functional.mse_loss(model(inputs), targets)))
        accelerator.print(f"epoch {epoch + 1}: validation loss {torch.stack(losses).mean():.4f}")
    accelerator.wait_for_everyone()
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")


if __name__ == "__main__":
    main()
