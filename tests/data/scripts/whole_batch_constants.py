"""As karpathy/build-nanogpt: a whole batch in tokens, a micro-batch B and a length T as constants; a step takes as many as that needs."""

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

total_batch_size = 4096  # in number of tokens
B = 16  # micro batch size
T = 64  # sequence length
assert total_batch_size % (B * T) == 0
grad_accum_steps = total_batch_size // (B * T)
loader = Batches(B, T)
max_steps = 12
for step in range(max_steps):
    optimizer.zero_grad()
    for micro_step in range(grad_accum_steps):
        x, y = loader.next_batch()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / grad_accum_steps
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("step", step, "loss", float(loss), "norm", float(norm), flush=True)
torch.save(model.state_dict(), "weights.pt")
