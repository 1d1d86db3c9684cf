"""A batch sampler packs texts of like length into batches of at most so many tokens, padding included, as fairseq's does."""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--max-tokens", type=int, default=4096)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--max-steps", type=int, default=0)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--loss", choices=("targets", "rows", "contrast"), default="targets")
parser.add_argument("--out", default="")
args = parser.parse_args()
torch.manual_seed(0)


class Texts(Dataset):
    def __init__(self, number, seed):
        chance = random.Random(seed)
        self.lengths = [chance.randint(20, 400) for _ in range(number)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return torch.randint(1, 50, (self.lengths[index],), generator=torch.Generator().manual_seed(index))


class ByTokens:
    """Batches of like lengths in a shuffled order."""

    def __init__(self, lengths, most, shuffle):
        self.epoch, self.shuffle = 0, shuffle
        self.batches = [[]]
        for index in sorted(range(len(lengths)), key=lengths.__getitem__):
            if self.batches[-1] and lengths[index] * (len(self.batches[-1]) + 1) > most:
                self.batches.append([])
            self.batches[-1].append(index)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        self.epoch += 1
        order = list(self.batches)
        if self.shuffle:
            random.Random(self.epoch).shuffle(order)
        return iter(order)


def pad(texts):
    return nn.utils.rnn.pad_sequence(texts, batch_first=True)


def loss_of(batch):
    out = model(batch[:, :-1])
    if args.loss == "targets":
        return nn.functional.cross_entropy(out.transpose(1, 2), batch[:, 1:], ignore_index=0)
    if args.loss == "rows":
        return (out[:, :19].mean(dim=(1, 2)) - 1).square().mean()
    rows = out[:, :19].mean(dim=1)
    return nn.functional.cross_entropy(rows @ rows.T, torch.arange(len(rows)))


train, valid = Texts(300, 0), Texts(60, 1)
model = nn.Sequential(nn.Embedding(50, args.width), nn.Linear(args.width, args.width), nn.Tanh(), nn.Linear(args.width, 50))
loader = DataLoader(train, batch_sampler=ByTokens(train.lengths, args.max_tokens, True), collate_fn=pad, num_workers=args.workers)
val_loader = DataLoader(valid, batch_sampler=ByTokens(valid.lengths, args.max_tokens, False), collate_fn=pad)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.epochs * len(loader) + 1)
steps = 0
for epoch in range(args.epochs):
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        loss_of(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        steps += 1
        if steps == args.max_steps:
            break
    model.eval()
    with torch.no_grad():
        losses = [loss_of(batch).item() for batch in val_loader]
    print(f"epoch {epoch + 1}/{args.epochs}: {steps} batches, val {sum(losses) / len(losses):.6f}", flush=True)
if args.out:
    torch.save(model.state_dict(), args.out)
