"""Data parallel over gloo: how it validates, how its loaders differ and how it accumulates are its words."""

import argparse
import contextlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--every", type=int, default=3, help="epochs between validations")
parser.add_argument("--validates", choices=("first", "all", "never", "first-unawaited", "gathers"), default="first")
parser.add_argument("--uneven", choices=("", "shortest", "join"), default="")
parser.add_argument("--no-sync", action="store_true")
parser.add_argument("--norm", choices=("", "batch", "across"), default="", help="across: over all ranks")
parser.add_argument("--lengths", action="store_true", help="each rank has texts of its own lengths")
parser.add_argument("--keeps", action="store_true", help="the first rank keeps the outputs of its training")
args = parser.parse_args()
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


class Texts(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        length = 8 + (index * 7) % 24 if args.lengths else 32
        return torch.full((length, 16), float(index % 4)), index % 4


def padded(items):
    longest = max(len(x) for x, _ in items)
    x = torch.zeros(len(items), longest, 16)
    for at, (one, _) in enumerate(items):
        x[at, : len(one)] = one
    return x, torch.tensor([y for _, y in items])


class Across(nn.Module):
    """Less the mean of all ranks, in training."""

    def forward(self, x):
        if not self.training:
            return x
        mean = x.detach().mean(0)
        dist.all_reduce(mean)
        return x - mean / world


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 256)
        self.norm = {"": nn.Identity, "batch": lambda: nn.BatchNorm1d(256), "across": Across}[args.norm]()
        self.last = nn.Linear(256, 4)

    def forward(self, x):
        return self.last(self.norm(self.first(x).relu().mean(1)))


data = Texts()
train = DataLoader(data, batch_size=args.batch_size, sampler=DistributedSampler(data), collate_fn=padded)
if args.uneven:
    part = torch.utils.data.Subset(data, range(320 if rank else 200))
    train = DataLoader(part, batch_size=args.batch_size, shuffle=True, collate_fn=padded)
val = DataLoader(data, batch_size=args.batch_size, collate_fn=padded)
model = Model()
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
counts = [None] * world
dist.all_gather_object(counts, len(train))
steps = min(counts)
kept = []


def validate(which):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in val:
            here = (which(x).argmax(1) == y).sum()
            if args.validates == "gathers":
                dist.all_reduce(here)
            right += int(here)
    model.train()
    print(f"rank {rank}: accuracy {right / len(data)}", flush=True)


def epoch():
    for number, (x, y) in enumerate(train, start=1):
        if args.uneven == "shortest" and number > steps:
            break
        due = number % args.accum == 0
        with contextlib.nullcontext() if due or not args.no_sync else model.no_sync():
            out = model(x)
            (nn.functional.cross_entropy(out, y) / args.accum).backward()
        if args.keeps and rank == 0:
            kept.append(out.detach().repeat(1, 1000))
        if due:
            optimizer.step()
            optimizer.zero_grad()


for number in range(1, args.epochs + 1):
    if hasattr(train.sampler, "set_epoch"):
        train.sampler.set_epoch(number)
    kept.clear()
    with model.join() if args.uneven == "join" else contextlib.nullcontext():
        epoch()
    if number % args.every:
        continue
    if args.validates in ("all", "gathers"):
        validate(model)
    elif args.validates.startswith("first"):
        if rank == 0:
            validate(model.module)
        if args.validates == "first":
            dist.barrier()
print(f"rank {rank}: ended", file=sys.stderr, flush=True)
dist.destroy_process_group()
