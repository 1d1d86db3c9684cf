"""A training script as a person has it: a wide network on whatever device there is."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--accum", type=int, default=1)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows = TensorDataset(torch.randn(32768, 512), torch.randint(0, 10, (32768,)))
    loader = DataLoader(rows, args.batch_size, shuffle=True, drop_last=True)
    layers = [nn.Linear(512, 8192), nn.ReLU(), *(layer for _ in range(6) for layer in (nn.Linear(8192, 8192), nn.ReLU()))]
    model = nn.Sequential(*layers, nn.Linear(8192, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, (x, y) in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / args.accum
        loss.backward()
        if step % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
