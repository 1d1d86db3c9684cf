"""A training whose loaders may take anything of a machine: workers of both kinds, prefetched batches, samples cached by workers, ragged
batches, many tensors a batch, a list that grows, and checkpoints of which the newest is kept."""

import argparse
import multiprocessing
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--prefetch", type=int, default=2)
parser.add_argument("--persistent", action="store_true")
parser.add_argument("--context", default="fork")
parser.add_argument("--rows", type=int, default=200)
parser.add_argument("--size", type=int, default=96, help="of the longest sample, squared")
parser.add_argument("--ragged", action="store_true")
parser.add_argument("--many", type=int, default=0, help="tensors beside each sample")
parser.add_argument("--cache", action="store_true", help="each worker keeps what it has read")
parser.add_argument("--keep", type=int, default=0, help="KiB that each step leaves behind")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--weights", type=int, default=1, help="MiB of the model")
parser.add_argument("--out", default="out")
parser.add_argument("--resume")
args = parser.parse_args()


class Rows(Dataset):
    def __init__(self, rows):
        self.rows, self.cache = rows, {}

    def __len__(self):
        return self.rows

    def __getitem__(self, at):
        if at not in self.cache:
            generator = torch.Generator().manual_seed(at)
            height = args.size if not args.ragged or at % 17 == 0 else max(8, int(args.size * torch.rand(1, generator=generator)))
            sample = torch.rand(3, height, args.size, generator=generator)
            if not args.cache:
                return sample, at % 10
            self.cache[at] = sample
        return self.cache[at], at % 10


def batch_of(rows):
    most = max(image.shape[1] for image, _ in rows)
    images = torch.stack([nn.functional.pad(image, (0, 0, 0, most - image.shape[1])) for image, _ in rows])
    return images, torch.tensor([label for _, label in rows]), [torch.zeros(1) for _ in rows for _ in range(args.many)]


def loader(rows, shuffle):
    more = {"prefetch_factor": args.prefetch, "persistent_workers": args.persistent} if args.workers else {}
    context = multiprocessing.get_context(args.context) if args.workers else None
    return DataLoader(
        Rows(rows), args.batch_size, shuffle=shuffle, num_workers=args.workers, collate_fn=batch_of, multiprocessing_context=context, **more
    )


def main():
    train, val = loader(args.rows, True), loader(args.rows // 4, False)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    model.register_parameter("table", nn.Parameter(torch.zeros(args.weights * 2**18)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    out, kept = Path(args.out), []
    out.mkdir(parents=True, exist_ok=True)
    first = 0
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    for epoch in range(first, args.epochs):
        model.train()
        for images, labels, _ in train:
            loss = nn.functional.cross_entropy(model(images), labels) + 0 * model.table.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.append(bytes([1]) * (args.keep * 1024))
        model.eval()
        with torch.no_grad():
            print(
                f"epoch {epoch + 1}/{args.epochs} loss {sum(nn.functional.cross_entropy(model(i), n).item() for i, n, _ in val):.4f}",
                flush=True,
            )
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, out / f"epoch{epoch}.pt")
        (out / f"epoch{epoch - 1}.pt").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
