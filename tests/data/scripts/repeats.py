"""A loop of its own around a model whose layers repeat, with dropout, and no word for checkpointing."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--out", default="weights.pt")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Embedding(50, 48)
        layer = nn.TransformerEncoderLayer(48, 4, 192, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.leave = nn.Linear(48, 50)

    def forward(self, tokens):
        return self.leave(self.body(self.enter(tokens)))


def loss_of(rows):
    return nn.functional.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


rows = torch.randint(0, 50, (8 * 32, 65))
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(args.epochs):
    net.train()
    for (batch,) in DataLoader(TensorDataset(rows), batch_size=args.batch_size, shuffle=True):
        optimizer.zero_grad()
        loss_of(batch).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        losses = [float(loss_of(batch)) for (batch,) in DataLoader(TensorDataset(rows[:64]), batch_size=32)]
    print(f"epoch {epoch + 1}/{args.epochs} val_loss {sum(losses) / len(losses):.4f}", flush=True)
torch.save(net.state_dict(), args.out)
