"""One graph, of which every step takes the whole: there is no batch, and nothing to turn."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=256)
args = parser.parse_args()
torch.manual_seed(0)
features, labels = torch.randn(600, 32), torch.randint(0, 4, (600,))
edges = ((torch.rand(600, 600) < 0.01).float() + torch.eye(600)).softmax(1)
model = nn.Sequential(nn.Linear(32, args.hidden), nn.ReLU(), nn.Linear(args.hidden, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(20):
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy((edges @ model(edges @ features))[:100], labels[:100])
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (edges @ model(edges @ features)).argmax(1)[100:300] == labels[100:300]
    print(f"epoch {epoch} loss {loss.item():.4f} accuracy {right.float().mean():.3f}", flush=True)
print("trained", flush=True)
