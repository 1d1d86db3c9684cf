"""A GPT as nanoGPT's, or a ResNet, trains for a few steps on the card that there is: no data loader, validation by steps, autocast, and
torch.compile if it is asked for. Its last line is what it has held, as JSON. Knows nothing of autofit.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
from torch import nn

WORDS, TOKENS, WIDTH, PIXELS = 8192, 512, 512, 224


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = (one.view(batch, length, 8, -1).transpose(1, 2) for one in self.attend(self.first(x)).split(WIDTH, dim=2))
        seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(nn.functional.gelu(self.widen(self.second(x))))


class GPT(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.enter, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.body, self.last = nn.Sequential(*(Block() for _ in range(layers))), nn.LayerNorm(WIDTH)
        self.leave = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = self.leave(self.last(self.body(self.enter(x) + self.place(torch.arange(x.shape[1], device=x.device)))))
        return nn.functional.cross_entropy(logits.view(-1, WORDS), y.reshape(-1))


class Vision(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        import torchvision

        self.net = getattr(torchvision.models, name)()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.net(x), y)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="gpt", help="gpt, or a name of torchvision's")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--compile", default="", help="a backend of torch.compile")
    parser.add_argument("--benchmark", action="store_true", help="cuDNN's")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the card that the allocator may have")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = asked.benchmark
    torch.cuda.set_per_process_memory_fraction(asked.fraction)
    data = torch.randint(WORDS, (200_000,))
    kind = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
    model: Any = (GPT(asked.layers) if asked.model == "gpt" else Vision(asked.model)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=kind is torch.float16)
    model = torch.compile(model, backend=asked.compile) if asked.compile else model

    def batch() -> list[torch.Tensor]:
        starts = torch.randint(len(data) - TOKENS - 1, (asked.batch_size,))
        if asked.model == "gpt":
            rows = torch.stack([data[start : start + TOKENS + 1] for start in starts])
            made = [rows[:, :-1], rows[:, 1:]]
        else:
            made = [torch.rand(asked.batch_size, 3, PIXELS, PIXELS), starts % 1000]
        return [one.to("cuda") for one in made]

    @torch.no_grad()
    def validated() -> float:
        model.eval()
        with torch.autocast("cuda", kind):
            found = sum(model(*batch()).item() for _ in range(4)) / 4
        model.train()
        return float(found)

    for step in range(asked.steps):
        for _ in range(asked.accum):
            with torch.autocast("cuda", kind):
                loss = model(*batch()) / asked.accum
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if step % 4 == 3:
            print(f"step {step + 1} of {asked.steps}: loss {loss.item() * asked.accum:.3f}, validation {validated():.3f}", flush=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "trained.pt")
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    peaks = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    counts = {name: stats[name] for name in ("num_ooms", "num_alloc_retries")}
    print(json.dumps({"card": torch.cuda.get_device_name(), "torch": torch.__version__, **peaks, **counts}), flush=True)


if __name__ == "__main__":
    main()
