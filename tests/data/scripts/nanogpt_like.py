"""As nanoGPT trains: no data loader, settings are globals that --name=value sets, validation by steps, torch.compile."""

import ast
import os
import sys

import torch
from torch import nn

batch_size = 12
block_size = 64
gradient_accumulation_steps = 2
eval_interval = 500
eval_iters = 100
max_iters = 2000
n_embd = 64
out_dir = "out"
for word in sys.argv[1:]:
    name, value = word[2:].split("=")
    globals()[name] = ast.literal_eval(value)

os.makedirs(out_dir, exist_ok=True)
data = {split: torch.randint(0, 50, (10000,)) for split in ("train", "val")}


def get_batch(split):
    starts = torch.randint(len(data[split]) - block_size - 1, (batch_size,))
    rows = torch.stack([data[split][i : i + block_size + 1] for i in starts])
    return rows[:, :-1], rows[:, 1:]


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Embedding(50, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, 4, 4 * n_embd, batch_first=True, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, 2)
        self.leave = nn.Linear(n_embd, 50)

    def forward(self, x, y):
        logits = self.leave(self.body(self.enter(x)))
        return logits, nn.functional.cross_entropy(logits.view(-1, 50), y.reshape(-1))


model = torch.compile(GPT(), backend="eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)


@torch.no_grad()
def estimate_loss():
    model.eval()
    found = {split: sum(model(*get_batch(split))[1].item() for _ in range(eval_iters)) / eval_iters for split in data}
    model.train()
    return found


X, Y = get_batch("train")
iter_num = 0
while True:
    if iter_num % eval_interval == 0:
        print(iter_num, estimate_loss(), flush=True)
        if iter_num > 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, os.path.join(out_dir, "ckpt.pt"))
    for _ in range(gradient_accumulation_steps):
        logits, loss = model(X, Y)
        X, Y = get_batch("train")
        scaler.scale(loss / gradient_accumulation_steps).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num > max_iters:
        break
