"""Trains in ways whose large batch nobody can put together from outside; --way picks one."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--way", default="lbfgs")
parser.add_argument("--width", type=int, default=64)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(640, 16)
data = TensorDataset(x, x[:, :4].argmax(1))
batches = DataLoader(data, batch_size=args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(16, args.width), nn.Tanh(), nn.Linear(args.width, 4))
other = nn.Linear(16, 16)
criterion = nn.CrossEntropyLoss(reduction="sum" if args.way == "summed" else "mean")
optimizer = (torch.optim.LBFGS if args.way == "lbfgs" else torch.optim.SGD)(model.parameters(), lr=0.1)
second = torch.optim.SGD(other.parameters(), lr=0.1)


def backward(a, b):
    if args.way != "own":
        optimizer.zero_grad()
    loss = criterion(model(a), b)
    loss.backward()
    return loss


def endless():
    while True:
        yield from batches


print(f"== {args.way}", flush=True)


def cycled():
    while True:
        for batch in batches:
            yield tuple(batch)


if args.way == "cycled":
    source = cycled()
    for _ in range(50):
        backward(*next(source))
        optimizer.step()
elif args.way == "steps":
    passes = [iter(endless())]
    for _ in range(50):
        backward(*next(passes[0]))
        optimizer.step()
elif args.way == "no_loader":
    for _ in range(50):
        chosen = torch.randint(0, 640, (args.batch_size,))
        backward(x[chosen], data[chosen][1])
        optimizer.step()
else:
    for epoch in range(5):
        for at, (a, b) in enumerate(batches):
            if args.way == "lbfgs":
                optimizer.step(lambda a=a, b=b: backward(a, b))
                continue
            backward(a, b)
            if args.way == "by_hand":
                for p in model.parameters():
                    p.grad.clamp_(-0.1, 0.1)
            if args.way == "learning_rate":
                optimizer.param_groups[0]["lr"] = 0.1 / (1 + at)
            if args.way == "own" and at % 2:
                continue
            optimizer.step()
            if args.way == "own":
                optimizer.zero_grad()
            if args.way == "in_turn":  # as generator and critic: the second loss goes through the first model
                second.zero_grad()
                model(other(a)).square().mean().backward()
                second.step()
