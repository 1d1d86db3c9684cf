"""Two models with an optimizer each; the critic steps five times to one step of the generator, which is the larger one."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(32, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 16))
critic = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)
real = torch.randn(1024, 16)
for iteration in range(20):
    for _ in range(5):
        with torch.no_grad():
            fake = generator(torch.randn(args.batch_size, 32))
        loss = critic(fake).mean() - critic(real[torch.randint(0, 1024, (args.batch_size,))]).mean()
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
    generator_optimizer.zero_grad()
    (-critic(generator(torch.randn(args.batch_size, 32))).mean()).backward()
    generator_optimizer.step()
print("done")
