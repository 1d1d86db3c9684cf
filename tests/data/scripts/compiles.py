"""What is compiled for a training, into the compilers' own caches: its model by Inductor, or an operator by the C++ compiler."""

import argparse
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--inline", action="store_true")
parser.add_argument("--chosen", help="a cache that the script chooses by itself")
args = parser.parse_args()
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
if args.chosen:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = args.chosen
if args.inline:
    from torch.utils.cpp_extension import load_inline

    source = "#include <torch/types.h>\nat::Tensor twice(const at::Tensor& x) { return x + x; }"
    step = load_inline("twice_of_a_test", source, functions=["twice"]).twice
else:
    step = torch.compile(lambda x: (x * 2 + 1).relu().sum(1, keepdim=True) * x)
for epoch in range(2):
    model.train()
    for _ in range(8):
        loss = (
            step(model(torch.randn(args.batch_size, 32))).mean()
            if not args.inline
            else model(step(torch.randn(args.batch_size, 32))).mean()
        )
        (loss / args.accum).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print(model(torch.randn(args.batch_size, 32)).mean().item(), flush=True)
    torch.save(model.state_dict(), "model.pt")
