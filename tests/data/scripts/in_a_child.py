"""A training in a child of the script's, forked or spawned; the model is made there, or before (``--made above``)."""

import argparse
import multiprocessing
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--how", choices=("fork", "spawn"), default="fork")
parser.add_argument("--made", choices=("above", "there"), default="there")
parser.add_argument("--width", type=int, default=1024)


def model(args):
    return nn.Sequential(nn.Linear(256, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 10))


def train(args, net=None):
    torch.manual_seed(0)
    net = net if net is not None else model(args)
    data = TensorDataset(torch.randn(640, 256), torch.randint(10, (640,)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for epoch in range(3):
        net.train()
        for number, (x, y) in enumerate(DataLoader(data, args.batch_size, shuffle=True)):
            (nn.functional.cross_entropy(net(x), y) / args.accum).backward()
            if (number + 1) % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        net.eval()
        with torch.no_grad():
            right = sum(int((net(x).argmax(1) == y).sum()) for x, y in DataLoader(data, args.batch_size))
        print(f"epoch {epoch + 1}/3 accuracy {right / len(data):.3f}", flush=True)


if __name__ == "__main__":
    args = parser.parse_args()
    given = (args, model(args)) if args.made == "above" else (args,)
    child = multiprocessing.get_context(args.how).Process(target=train, args=given)
    child.start()
    child.join()
    sys.exit(child.exitcode)
