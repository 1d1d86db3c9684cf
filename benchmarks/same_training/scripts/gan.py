"""A maker and a judge, each with its optimizer."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
judge = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
makers, judges = torch.optim.SGD(maker.parameters(), 0.05), torch.optim.SGD(judge.parameters(), 0.05)
criterion = nn.BCEWithLogitsLoss()
loader = DataLoader(TensorDataset(torch.randn(48, 16), torch.randn(48, 8)), args.batch_size, shuffle=True)
for epoch in range(args.epochs):
    for real, noise in loader:
        fake = maker(noise)
        judges.zero_grad()
        told, fooled = judge(real), judge(fake.detach())
        (criterion(told, torch.ones_like(told)) + criterion(fooled, torch.zeros_like(fooled))).backward()
        judges.step()
        makers.zero_grad()
        fooled = judge(fake)
        criterion(fooled, torch.ones_like(fooled)).backward()
        makers.step()
torch.save({"maker": maker.state_dict(), "judge": judge.state_dict()}, "model.pt")
