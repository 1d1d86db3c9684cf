"""``ragged`` on several processes over gloo, as torchrun starts them: each trains on its part, each validates on its part."""

import argparse
import os

import torch
import torch.distributed as dist
from ragged import Sentences, Tagger, collate
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def loader(sentences, batch, *, shuffle):
    return DataLoader(sentences, batch, collate_fn=collate, sampler=DistributedSampler(sentences, shuffle=shuffle))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--longest", type=int, default=200)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--keep", choices=("labels", "logits"), default="labels")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    train = loader(Sentences(args.rows, args.longest, 0), args.batch_size, shuffle=True)
    val = loader(Sentences(args.batch_size * 14 + 2, args.longest, 1), args.batch_size * 2, shuffle=False)
    model = DistributedDataParallel(Tagger(args.width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        model.train()
        train.sampler.set_epoch(epoch)
        for step, (tokens, labels) in enumerate(train, start=1):
            said, again = model(tokens)
            loss = nn.functional.cross_entropy(said, labels) + nn.functional.cross_entropy(again.flatten(0, 1), tokens.flatten())
            (loss / args.accum).backward()
            if step % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        kept, right = [], 0
        with torch.no_grad():
            for tokens, labels in val:
                said, again = model.module(tokens)
                right += int((said.argmax(1) == labels).sum())
                kept.append(again if args.keep == "logits" else said.argmax(1))
        print(f"epoch {epoch + 1}, rank {os.environ['RANK']}: {right} right, kept {sum(one.numel() for one in kept)}", flush=True)
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
