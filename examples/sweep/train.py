"""A training as a person has it: a network of two layers on made-up rows."""

import argparse
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--tell", help="file that gets the last loss")
    args = parser.parse_args()

    torch.manual_seed(0)
    rows = torch.randn(1024, 3, 32, 32)
    data = TensorDataset(rows, rows.mean(dim=(1, 2, 3)).gt(0).long())
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, args.width // 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(args.width // 16, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        for step, (x, y) in enumerate(loader, 1):
            loss = nn.functional.cross_entropy(model(x), y) / args.accum
            loss.backward()
            if step % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item() * args.accum:.4f}", flush=True)
    if args.tell:
        with open(args.tell, "w") as file:
            json.dump({"loss": loss.item() * args.accum}, file)


if __name__ == "__main__":
    main()
