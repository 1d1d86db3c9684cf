"""Several processes that DeepSpeed trains by its own configuration: micro-batch, accumulation and ZeRO stand in its file."""

import argparse

import deepspeed
import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--epochs", type=int, default=3)
    args = deepspeed.add_config_arguments(parser).parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 10))
    x = torch.randn(16384, 64)
    data = torch.utils.data.TensorDataset(x, x[:, :10].argmax(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, _, loader, _ = deepspeed.initialize(args=args, model=model, optimizer=optimizer, training_data=data)
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(engine(x), y)
            engine.backward(loss)
            engine.step()
        print(f"epoch {epoch + 1}: {loss.item():.3f}", flush=True)
    print(f"{engine.global_steps} steps of {engine.train_batch_size()}, {len(y)} at once", flush=True)


if __name__ == "__main__":
    main()
