"""A language model on one long text, cut into as many columns as the batch has rows; its state is carried on."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--bptt", type=int, default=6)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.out = nn.Embedding(50, 16), nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 50)

    def forward(self, tokens, state):
        said, state = self.rnn(self.words(tokens), state)
        return self.out(said), state


model = Model()
optimizer = torch.optim.SGD(model.parameters(), 1.0)
text = torch.randint(0, 50, (800,))
text = text[: len(text) // args.batch_size * args.batch_size].view(args.batch_size, -1)
for epoch in range(args.epochs):
    state = None
    for at in range(0, text.shape[1] - 1 - args.bptt, args.bptt):
        said, state = model(text[:, at : at + args.bptt], state)
        state = tuple(one.detach() for one in state)
        loss = nn.functional.cross_entropy(said.flatten(0, 1), text[:, at + 1 : at + 1 + args.bptt].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
