"""A plain PyTorch classifier of scikit-learn's handwritten digits: epochs, validation, the best model kept. It knows nothing of autofit."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--accum", type=int, default=1, help="micro-batches per optimizer step")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()

    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    images = nn.functional.interpolate(images, size=32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels))
    train, val = order[:1400], order[1400:]
    loaders = [
        DataLoader(TensorDataset(images[part], labels[part]), batch_size=args.batch_size, shuffle=shuffle, num_workers=args.workers)
        for part, shuffle in ((train, True), (val, False))
    ]
    model = nn.Sequential(
        nn.Conv2d(1, args.width, 3, padding=1), nn.ReLU(), nn.Conv2d(args.width, args.width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
        nn.Flatten(), nn.Linear(args.width * 64, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    args.out.mkdir(parents=True, exist_ok=True)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        for number, (x, y) in enumerate(loaders[0], start=1):
            loss = nn.functional.cross_entropy(model(x), y) / args.accum
            loss.backward()
            if number % args.accum == 0 or number == len(loaders[0]):
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in loaders[1])
        accuracy = right / len(val)
        print(f"epoch {epoch + 1}: accuracy {accuracy:.3f}", flush=True)
        with (args.out / "metrics.csv").open("a" if epoch else "w") as file:
            file.write(("" if epoch else "epoch,accuracy\n") + f"{epoch + 1},{accuracy:.4f}\n")
        if accuracy > best:
            best = accuracy
            torch.save({"model": model.state_dict(), "epoch": epoch}, args.out / "best_model.pth")


if __name__ == "__main__":
    main()
