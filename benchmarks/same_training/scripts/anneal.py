"""A variational autoencoder; the weight of its second loss grows with every batch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--epochs", type=int, default=2)
p.add_argument("--after", type=int, default=0)
args = p.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32)), args.batch_size, shuffle=True)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = (nn.Linear(32, 16), nn.Linear(8, 32))

    def forward(self, x):
        mu, lv = self.enc(x).chunk(2, 1)
        return (self.dec(mu + torch.randn_like(mu) * (0.5 * lv).exp()), mu, lv)


model = VAE()
opt = torch.optim.SGD(model.parameters(), 0.05)
step = 0
for _ in range(args.epochs):
    for (x,) in loader:
        out, mu, lv = model(x)
        kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(1).mean()
        beta = min(1.0, max(0, step - args.after) / 20)
        loss = nn.functional.mse_loss(out, x) + beta * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
torch.save(model.state_dict(), "model.pt")
