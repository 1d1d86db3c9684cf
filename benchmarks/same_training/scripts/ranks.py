"""Processes that torchrun starts: each trains on its part of the rows, and they average their gradients."""

import argparse

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8, help="of each process")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 32), torch.randint(0, 5, (96,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, args.batch_size, sampler=sampler)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
    trained = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(trained.parameters(), 0.1, momentum=0.9)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for rows, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(trained(rows), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    if distributed.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
