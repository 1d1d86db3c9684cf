"""A critic whose gradients are penalised, and a maker that asks for its own by hand; looked at after its only, long epoch."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 16))
critic = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
maker_optimizer = torch.optim.Adam(maker.parameters(), lr=1e-4)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)
maker.train()
for _ in range(2000):
    real = torch.randn(args.batch_size, 16, requires_grad=True)
    judged = critic(real)
    slope = torch.autograd.grad(judged.sum(), real, create_graph=True)[0]
    loss = critic(maker(torch.randn(args.batch_size, 32)).detach()).mean() - judged.mean() + (slope.norm(dim=1) - 1).square().mean()
    critic_optimizer.zero_grad()
    loss.backward()
    critic_optimizer.step()
    fooled = -critic(maker(torch.randn(args.batch_size, 32))).mean()
    for weight, gradient in zip(maker.parameters(), torch.autograd.grad(fooled, list(maker.parameters())), strict=True):
        weight.grad = gradient
    maker_optimizer.step()
maker.eval()
with torch.no_grad():
    shown = maker(torch.randn(4096, 32))
print(f"made {tuple(shown.shape)}")
