"""Learns masks on crops, validates on whole pictures of any size, one at a time; some are kept for a figure at the end."""

import argparse
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Noise with a bright rectangle; every picture has a size of its own."""

    def __init__(self, count, largest, crop, seed):
        rng = random.Random(seed)
        self.sizes = [(rng.randint(crop or 33, largest), rng.randint(crop or 33, largest)) for _ in range(count)]
        self.crop, self.seed = crop, seed

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, index):
        height, width = self.sizes[index]
        generator = np.random.default_rng(self.seed * 100003 + index)
        picture = generator.random((3, height, width), dtype=np.float32)
        mask = np.zeros((height, width), dtype=np.int64)
        mask[height // 4 : height // 2, width // 4 : width // 2] = 1
        picture[:, mask == 1] += 0.5
        if self.crop:
            top, left = generator.integers(height - self.crop + 1), generator.integers(width - self.crop + 1)
            picture, mask = (part[..., top : top + self.crop, left : left + self.crop] for part in (picture, mask))
        return torch.from_numpy(np.ascontiguousarray(picture)), torch.from_numpy(np.ascontiguousarray(mask))


def block(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(), nn.Conv2d(outside, outside, 3, padding=1), nn.ReLU()
    )


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down = nn.ModuleList([block(3, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.up = nn.ModuleList([block(6 * width, 2 * width), block(3 * width, width)])
        self.leave = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        kept = []
        for layer in self.down[:-1]:
            x = layer(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.down[-1](x)
        for layer in self.up:
            there = kept.pop()
            x = layer(torch.cat([nn.functional.interpolate(x, size=there.shape[-2:]), there], 1))
        return self.leave(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--crop-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--largest", type=int, default=320)
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--keep", type=int, default=0, help="1: keep every prediction for the figure")
    args = parser.parse_args()
    torch.manual_seed(0)
    train = DataLoader(Pictures(args.pictures, args.largest, args.crop_size, 0), args.batch_size, shuffle=True)
    val = DataLoader(Pictures(12, args.largest, 0, 1), 1)
    model = UNet(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    best = 1e9
    for epoch in range(args.epochs):
        model.train()
        for step, (pictures, masks) in enumerate(train, start=1):
            (nn.functional.cross_entropy(model(pictures), masks) / args.accum).backward()
            if step % args.accum == 0 or step == len(train):
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        losses, figure = [], []
        with torch.no_grad():
            for pictures, masks in val:
                said = model(pictures)
                losses.append(nn.functional.cross_entropy(said, masks).item())
                if args.keep:
                    figure.append(said.softmax(1).numpy())
        loss = sum(losses) / len(losses)
        print(f"epoch {epoch + 1}: validation loss {loss:.4f}, {len(figure)} for the figure", flush=True)
        if loss < best:
            best = loss
            torch.save(model.state_dict(), "best.pt")
    np.savez_compressed("figure.npz", *figure)


if __name__ == "__main__":
    main()
