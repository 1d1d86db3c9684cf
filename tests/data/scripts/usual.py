"""What many of these scripts have in common: flags, data, a model, a pass over the data, a validation."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Usual:
    def __init__(self, parser=None):
        parser = parser or argparse.ArgumentParser()
        parser.add_argument("--batch-size", type=int, default=64)
        parser.add_argument("--accum", type=int, default=1)
        parser.add_argument("--width", type=int, default=256)
        self.args = args = parser.parse_args()
        torch.manual_seed(0)
        self.x = torch.randn(640, 32)
        self.data = TensorDataset(self.x, self.x[:, :4].argmax(1))
        self.train = DataLoader(self.data, batch_size=args.batch_size, shuffle=True)
        self.val = DataLoader(TensorDataset(*self.data[:256]), batch_size=args.batch_size)
        middle = nn.Linear(args.width, args.width)
        self.model = nn.Sequential(nn.Linear(32, args.width), nn.ReLU(), middle, nn.ReLU(), nn.Linear(args.width, 4))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def step(self, batch, number=0):
        """One micro-batch, and the optimizer's step where it is due."""
        (nn.functional.cross_entropy(self.model(batch[0]), batch[1]) / self.args.accum).backward()
        if number % self.args.accum == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def one_pass(self):
        for number, batch in enumerate(self.train, start=1):
            self.step(batch, number)

    def train_for(self, epochs):
        for _ in range(epochs):
            self.one_pass()
            self.validate()

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            right = sum(int((self.model(a).argmax(1) == b).sum()) for a, b in self.val)
        self.model.train()
        torch.save(self.model.state_dict(), "model.pt")
        print("accuracy", right / 256, flush=True)
