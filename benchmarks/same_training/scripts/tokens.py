"""The whole batch in tokens, the part of it that one pass takes in rows; the script works out how often it accumulates."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device-batch-size", type=int, default=8)
parser.add_argument("--total-batch-size", type=int, default=256, help="in tokens")
parser.add_argument("--max-seq-len", type=int, default=32)
parser.add_argument("--num-iterations", type=int, default=6)
args = parser.parse_args()
torch.manual_seed(0)
tokens_each = args.device_batch_size * args.max_seq_len
assert args.total_batch_size % tokens_each == 0, f"total_batch_size must be a multiple of {tokens_each}"
accumulate = args.total_batch_size // tokens_each
text = torch.randint(0, 60, (20_000,))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.out = nn.Embedding(60, 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 60)

    def forward(self, tokens):
        return self.out(self.rnn(self.words(tokens))[0])


def batches():
    at = 0
    while True:
        cut = text[at : at + tokens_each + 1]
        at += tokens_each
        yield cut[:-1].view(args.device_batch_size, -1), cut[1:].view(args.device_batch_size, -1)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.5)
data = batches()
for step in range(args.num_iterations):
    for _ in range(accumulate):
        x, y = next(data)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        (loss / accumulate).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}: {loss.item():.4f}", flush=True)
torch.save(model.state_dict(), "model.pt")
