"""A training whose loader workers take what a machine has beside its device: shared memory, open files, memory of their own."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--workers", type=int, default=4)
parser.add_argument("--size", type=int, default=64)
parser.add_argument("--many", type=int, default=0, help="tensors beside each sample that are not put together")
parser.add_argument("--hold", type=int, default=0, help="MiB that each worker keeps")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--pause", type=float, default=0.0, help="seconds of a step, in which workers run ahead")
chosen = parser.parse_args()
kept = []


class Rows(Dataset):
    def __len__(self):
        return 24 * chosen.batch_size

    def __getitem__(self, at):
        if chosen.hold and not kept:
            kept.append(torch.ones(chosen.hold * 2**18))
        generator = torch.Generator().manual_seed(at)
        return torch.rand(3, chosen.size, chosen.size, generator=generator), at % 2, [torch.zeros(1) for _ in range(chosen.many)]


def batch_of(rows):
    images, labels, more = zip(*rows, strict=True)
    return torch.stack(images), torch.tensor(labels), [one for row in more for one in row]


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 2)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loaders = [
        DataLoader(Rows(), chosen.batch_size, num_workers=chosen.workers, collate_fn=batch_of, shuffle=train) for train in (True, False)
    ]
    for epoch in range(chosen.epochs):
        for loader, train in zip(loaders, (True, False), strict=True):
            model.train(train)
            for images, labels, _ in loader:
                with torch.set_grad_enabled(train):
                    loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                time.sleep(chosen.pause)
        print(f"epoch {epoch + 1}/{chosen.epochs} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
