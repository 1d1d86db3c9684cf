"""One graph, of which every step takes the whole: there is no batch, and nothing to turn."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=256)
args = parser.parse_args()
torch.manual_seed(0)
nodes = 600
features, labels = torch.randn(nodes, 32), torch.randint(0, 4, (nodes,))
edges = (torch.rand(nodes, nodes) < 0.01).float() + torch.eye(nodes)
edges /= edges.sum(1, keepdim=True)
train, val = torch.arange(100), torch.arange(100, 300)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, args.hidden), nn.Linear(args.hidden, 4)

    def forward(self, x, edges):
        return edges @ self.second(torch.relu(edges @ self.first(x)))


model = Convolutions()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(20):
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(features, edges)[train], labels[train])
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(features, edges)[val].argmax(1) == labels[val]).float().mean()
    print(f"epoch {epoch} loss {loss.item():.4f} accuracy {right:.3f}", flush=True)
print("trained", flush=True)
