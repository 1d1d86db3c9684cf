"""As karpathy/autoresearch: the division stands in a line of its own, after the tokens of one pass."""

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

TOTAL_BATCH_SIZE = 2**12
DEVICE_BATCH_SIZE = 16  # per-device batch size (reduce if OOM)
MAX_SEQ_LEN = 64

tokens_per_fwdbwd = DEVICE_BATCH_SIZE * MAX_SEQ_LEN
assert TOTAL_BATCH_SIZE % tokens_per_fwdbwd == 0
grad_accum_steps = TOTAL_BATCH_SIZE // tokens_per_fwdbwd
loader = Batches(DEVICE_BATCH_SIZE, MAX_SEQ_LEN)
for step in range(12):
    optimizer.zero_grad()
    for micro_step in range(grad_accum_steps):
        x, y = loader.next_batch()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / grad_accum_steps
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("step", step, "loss", float(loss), "norm", float(norm), flush=True)
torch.save(model.state_dict(), "weights.pt")
