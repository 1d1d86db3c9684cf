"""Two models against each other, each with its optimizer; after every epoch a sheet of samples is drawn at once."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def maker(width, size):
    layers = [nn.ConvTranspose2d(32, 4 * width, size // 8), nn.ReLU()]
    for outside, inside in ((4, 2), (2, 1)):
        layers += [nn.ConvTranspose2d(outside * width, inside * width, 4, 2, 1), nn.BatchNorm2d(inside * width), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())


def critic(width, size):
    layers = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for inside in (1, 2):
        layers += [nn.Conv2d(inside * width, 2 * inside * width, 4, 2, 1), nn.BatchNorm2d(2 * inside * width), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(4 * width, 1, size // 8), nn.Flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--samples", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    pictures = torch.rand(args.pictures, 3, args.image_size, args.image_size) * 2 - 1
    loader = DataLoader(TensorDataset(pictures), args.batch_size, shuffle=True, drop_last=True)
    makes, judges = maker(args.width, args.image_size), critic(args.width, args.image_size)
    optimizers = [torch.optim.Adam(one.parameters(), lr=2e-4, betas=(0.5, 0.999)) for one in (makes, judges)]
    always = torch.randn(args.samples, 32, 1, 1)
    for epoch in range(args.epochs):
        makes.train()
        for step, (real,) in enumerate(loader, start=1):
            fake = makes(torch.randn(len(real), 32, 1, 1))
            against = nn.functional.softplus(-judges(real)).mean() + nn.functional.softplus(judges(fake.detach())).mean()
            (against / args.accum).backward()
            fooled = nn.functional.softplus(-judges(fake)).mean()
            fooled_grads = torch.autograd.grad(fooled, list(makes.parameters()))
            for weight, grad in zip(makes.parameters(), fooled_grads, strict=True):
                weight.grad = grad if weight.grad is None else weight.grad + grad
            if step % args.accum == 0:
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
        makes.eval()
        with torch.no_grad():
            sheet = makes(always)
        np.save(f"samples{epoch + 1}.npy", sheet.numpy())
        print(f"epoch {epoch + 1}: critic {against.item():.3f}, maker {fooled.item():.3f}", flush=True)
        torch.save({"maker": makes.state_dict(), "critic": judges.state_dict()}, "last.pt")


if __name__ == "__main__":
    main()
