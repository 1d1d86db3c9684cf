"""As karpathy/nanochat: a whole batch in tokens, the device's batch and the length as flags; -1 is a whole batch of its own choice."""

import argparse

import torch
from torch import nn


class Batches:
    """The next rows of the text, each time it is asked."""

    def __init__(self, rows, length):
        self.rows, self.length, self.at = rows, length, 0
        self.text = torch.arange(200_000) * 7919 % 97

    def next_batch(self):
        size = self.rows * self.length
        part = self.text[self.at : self.at + size + 1]
        self.at += size
        return part[:-1].view(self.rows, self.length), part[1:].view(self.rows, self.length)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(97, 32), nn.Linear(32, 4096), nn.GELU(), nn.Linear(4096, 97))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

parser = argparse.ArgumentParser()
parser.add_argument("--device-batch-size", type=int, default=16, help="per-device batch size")
parser.add_argument("--total-batch-size", type=int, default=-1, help="total batch size in tokens (-1: by itself)")
parser.add_argument("--max-seq-len", type=int, default=64)
parser.add_argument("--num-iterations", type=int, default=12)
args = parser.parse_args()
total_batch_size = args.total_batch_size if args.total_batch_size > 0 else 4096
world_tokens_per_fwdbwd = args.device_batch_size * args.max_seq_len
assert total_batch_size % world_tokens_per_fwdbwd == 0
grad_accum_steps = total_batch_size // world_tokens_per_fwdbwd
loader = Batches(args.device_batch_size, args.max_seq_len)
for step in range(args.num_iterations):
    optimizer.zero_grad()
    for micro_step in range(grad_accum_steps):
        x, y = loader.next_batch()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / grad_accum_steps
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("step", step, "loss", float(loss), "norm", float(norm), flush=True)
torch.save(model.state_dict(), "weights.pt")
