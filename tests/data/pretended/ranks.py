"""Collectives, and five steps of a small model under DistributedDataParallel, on as many cards as there are ranks; rank 0 prints them.

Alone (without torchrun) it trains on the whole batch by one process. Every rank prints its own peak.
"""

import json
import os

import torch
import torch.distributed as dist
from torch import nn

WORLD, RANK = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
CARD = torch.device("cuda", RANK)


def collectives():
    """What each gives on two ranks, as plain numbers."""
    mine = torch.full((4,), float(RANK + 1), device=CARD)
    summed, most, mean = mine.clone(), mine.clone(), mine.clone().bfloat16()
    dist.all_reduce(summed)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    gathered = [torch.empty_like(mine) for _ in range(WORLD)]
    dist.all_gather(gathered, mine)
    scattered = torch.empty(2, device=CARD)
    dist.reduce_scatter_tensor(scattered, torch.arange(4.0, device=CARD))
    sent = torch.full((3,), float(RANK), device=CARD)
    got = torch.empty_like(sent)
    ops = [dist.P2POp(dist.isend, sent, (RANK + 1) % WORLD), dist.P2POp(dist.irecv, got, (RANK - 1) % WORLD)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"rank": RANK})
    large = torch.ones(3 << 20, device=CARD)  # more than one chunk
    dist.all_reduce(large)
    numbers = {"summed": summed, "most": most, "mean": mean.float(), "gathered": torch.stack(gathered), "scattered": scattered, "got": got}
    return {**{name: one.tolist() for name, one in numbers.items()}, "objects": objects, "large": [large.min().item(), large.max().item()]}


def losses():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).to(CARD)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[RANK]) if WORLD > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator, found = torch.Generator().manual_seed(1), []
    for _ in range(5):
        pictures, labels = torch.randn(8, 3, 8, 8, generator=generator), torch.randint(0, 5, (8,), generator=generator)
        part = slice(RANK * 8 // WORLD, (RANK + 1) * 8 // WORLD)
        loss = nn.functional.cross_entropy(model(pictures[part].to(CARD)), labels[part].to(CARD))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        whole = loss.detach() / WORLD
        if WORLD > 1:
            dist.all_reduce(whole)
        found.append(whole.item())
    return found


def main():
    torch.cuda.set_device(CARD)
    if WORLD > 1:
        dist.init_process_group("nccl", device_id=CARD)
    said = {"collectives": collectives() if WORLD > 1 else None, "losses": losses()}
    if os.environ.get("FILLS") == str(RANK):
        torch.cuda.set_per_process_memory_fraction(0.05)
        torch.empty(20 << 30, dtype=torch.uint8, device=CARD)
    if RANK == 0:
        print(json.dumps(said), flush=True)
    if WORLD > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
