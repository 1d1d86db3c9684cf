"""A classifier on vectors: the loop that most tutorials have. What is special about a case is a flag."""

import argparse
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--drop-last", action="store_true")
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--cosine", choices=["steps", "epochs"])
    parser.add_argument("--ema", type=float, default=0.0)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--weighted", action="store_true", help="classes weigh differently")
    parser.add_argument("--adamw", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(args.rows, 32), torch.randint(0, 5, (args.rows,))
    loader = DataLoader(TensorDataset(x, y), args.batch_size, shuffle=True, drop_last=args.drop_last)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3) if args.adamw else torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 1.0, 9.0, 0.2]) if args.weighted else None)
    length = args.epochs * len(loader) if args.cosine == "steps" else args.epochs
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, length) if args.cosine else None
    scaler = torch.amp.GradScaler("cpu", enabled=args.amp)
    ema = copy.deepcopy(model) if args.ema else None
    for epoch in range(args.epochs):
        for rows, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=args.amp):
                loss = criterion(model(rows), labels)
            scaler.scale(loss).backward()
            if args.clip:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
            if args.cosine == "steps":
                scheduler.step()
            if ema is not None:
                with torch.no_grad():
                    for mean, one in zip(ema.parameters(), model.parameters()):
                        mean.mul_(args.ema).add_(one, alpha=1 - args.ema)
        if args.cosine == "epochs":
            scheduler.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    torch.save((ema or model).state_dict(), "model.pt")


if __name__ == "__main__":
    main()
