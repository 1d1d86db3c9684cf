"""Texts packed one behind another into rows of one length, each row cut at its texts' ends by the labels."""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--seq-len", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(0)
random.seed(0)


class Packed(Dataset):
    """A label of -100 stands at the first token of each text, which nothing foretells, and at half of the texts (prompts)."""

    def __init__(self):
        tokens, labels = [], []
        while len(tokens) < 48 * args.seq_len:
            text = [random.randrange(2, 60) for _ in range(random.randint(4, 24))]
            tokens += text
            labels += [-100] * len(text) if random.random() < 0.5 else [-100, *text[1:]]
        self.tokens, self.labels = torch.tensor(tokens), torch.tensor(labels)

    def __len__(self):
        return 48

    def __getitem__(self, row):
        cut = slice(row * args.seq_len, (row + 1) * args.seq_len)
        return self.tokens[cut], self.labels[cut]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.out = nn.Embedding(60, 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 60)

    def forward(self, tokens):
        return self.out(self.rnn(self.words(tokens))[0])


model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.5)
loader = DataLoader(Packed(), args.batch_size, shuffle=True)
for epoch in range(args.epochs):
    for tokens, labels in loader:
        said = model(tokens)
        loss = nn.functional.cross_entropy(said[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
