"""Data parallel with a card for each process, started by torchrun or (``--spawn 2``) by itself; how it finds its card are its words."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--spawn", type=int, default=0)
parser.add_argument("--finds", choices=("set", "named", "late"), default="set", help="named: it never makes its card the current one")
parser.add_argument("--greedy", action="store_true", help="the second process needs much more")
parser.add_argument("--stray", action="store_true", help="every process puts something on the first card, too")
parser.add_argument("--both", action="store_true", help="one process, two cards")


class Texts(Dataset):
    """One in a hundred is long."""

    def __len__(self):
        return 640

    def __getitem__(self, index):
        return torch.full((64 if index % 100 == 99 else 8, 16), float(index % 4)), index % 4


def padded(items):
    longest = max(len(x) for x, _ in items)
    x = torch.zeros(len(items), longest, 16)
    for at, (one, _) in enumerate(items):
        x[at, : len(one)] = one
    return x, torch.tensor([y for _, y in items])


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last = nn.Linear(16, width), nn.Linear(width, 4)

    def forward(self, x):
        return self.last(self.first(x).relu().mean(1))


def main(rank, args, world):
    if args.finds == "late":
        model = Model(args.width)
    card = torch.device("cuda", rank)
    if args.finds == "set":
        torch.cuda.set_device(card)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.manual_seed(0)
    if args.finds != "late":
        model = Model(args.width)
    model = nn.parallel.DistributedDataParallel(model.to(card), device_ids=[rank])
    stray = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda:0") if args.stray else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data, kept = Texts(), []
    train = DataLoader(data, batch_size=args.batch_size, sampler=DistributedSampler(data), collate_fn=padded)
    val = DataLoader(data, batch_size=args.batch_size, collate_fn=padded)
    for epoch in range(args.epochs):
        train.sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(train, start=1):
            loss = nn.functional.cross_entropy(model(x.to(card)), y.to(card)) / args.accum
            loss.backward()
            if args.greedy and rank == 1:
                kept.append(torch.ones(256 << 20, dtype=torch.uint8, device=card))
            if number % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        if rank == 0:
            model.eval()
            with torch.no_grad():
                right = sum(int((model.module(x.to(card)).argmax(1) == y.to(card)).sum()) for x, y in val)
            model.train()
            print(f"accuracy {right / len(data)}", flush=True)
        dist.barrier(device_ids=[rank])
    del stray
    print(f"rank {rank}: ended", flush=True)
    dist.destroy_process_group()


def alone(args):
    model = nn.Sequential(nn.Linear(16, args.width).to("cuda:0"), nn.ReLU()), nn.Linear(args.width, 4).to("cuda:1")
    optimizer = torch.optim.AdamW([*model[0].parameters(), *model[1].parameters()], lr=1e-3)
    for _ in range(args.epochs):
        for x, y in DataLoader(Texts(), batch_size=args.batch_size, collate_fn=padded):
            out = model[1](model[0](x.to("cuda:0")).mean(1).to("cuda:1"))
            nn.functional.cross_entropy(out, y.to("cuda:1")).backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    args = parser.parse_args()
    if args.both:
        alone(args)
    elif args.spawn:
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=os.environ.get("MASTER_PORT", "29417"))
        torch.multiprocessing.spawn(main, args=(args, args.spawn), nprocs=args.spawn)
    else:
        main(int(os.environ["LOCAL_RANK"]), args, int(os.environ["WORLD_SIZE"]))
