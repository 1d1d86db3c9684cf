"""Learns which two views belong together (contrastive), then looks each up in a gallery: a matrix of everything with everything."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tower(width):
    return nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 128))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--gallery", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    rows, held = torch.randn(args.rows, 64), torch.randn(args.gallery, 64)
    train = DataLoader(TensorDataset(rows, rows + 0.1 * torch.randn_like(rows)), args.batch_size, shuffle=True)
    val = DataLoader(TensorDataset(held, held + 0.1 * torch.randn_like(held)), args.batch_size)
    towers = nn.ModuleList([tower(args.width), tower(args.width)])
    optimizer = torch.optim.AdamW(towers.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        towers.train()
        for step, views in enumerate(train, start=1):
            left, right = (nn.functional.normalize(one(view), dim=1) for one, view in zip(towers, views, strict=True))
            alike = left @ right.T / 0.07
            targets = torch.arange(len(alike))
            loss = nn.functional.cross_entropy(alike, targets) + nn.functional.cross_entropy(alike.T, targets)
            (loss / args.accum).backward()
            if step % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        towers.eval()
        found = [[], []]
        with torch.no_grad():
            for views in val:
                for side, one, view in zip(found, towers, views, strict=True):
                    side.append(nn.functional.normalize(one(view), dim=1))
            alike = torch.cat(found[0]) @ torch.cat(found[1]).T
            ranks = alike.argsort(1, descending=True)
            first = (ranks[:, 0] == torch.arange(len(ranks))).float().mean()
        print(f"epoch {epoch + 1}: recall at 1 {first:.3f} of {len(ranks)}", flush=True)
        torch.save({"towers": towers.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


if __name__ == "__main__":
    main()
