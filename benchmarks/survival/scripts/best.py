"""A configuration file, an average of the weights, the best model kept aside, and at the end a test of it in larger batches."""

import argparse
import copy

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 40


def table(rows, features, seed):
    x = torch.randn(rows, features, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, x[:, :CLASSES].argmax(1))


def evaluate(model, loader):
    model.eval()
    said, true = [], []
    with torch.no_grad():
        for x, y in loader:
            said.append(model(x).softmax(1))
            true.append(y)
    return (torch.cat(said).argmax(1) == torch.cat(true)).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    with open(parser.parse_args().config) as file:
        config = yaml.safe_load(file)
    data, shape, training, evaluation = config["data"], config["model"], config["training"], config["evaluation"]
    torch.manual_seed(0)
    train = DataLoader(table(data["rows"], data["features"], 0), training["batch_size"], shuffle=True)
    val = DataLoader(table(evaluation["batch_size"] * 4 + 1, data["features"], 1), evaluation["batch_size"])
    layers = [part for _ in range(shape["layers"]) for part in (nn.Linear(shape["width"], shape["width"]), nn.ReLU())]
    model = nn.Sequential(nn.Linear(data["features"], shape["width"]), nn.ReLU(), *layers, nn.Linear(shape["width"], CLASSES))
    made = torch.optim.AdamW if training["optimizer"] == "adamw" else torch.optim.SGD
    optimizer = made(model.parameters(), lr=1e-3)
    average = copy.deepcopy(model) if training["ema"] else None
    best, kept = -1.0, None
    for epoch in range(training["epochs"]):
        model.train()
        for step, (x, y) in enumerate(train, start=1):
            (nn.functional.cross_entropy(model(x), y) / training["accumulation_steps"]).backward()
            if step % training["accumulation_steps"] == 0:
                optimizer.step()
                optimizer.zero_grad()
                if average is not None:
                    with torch.no_grad():
                        for old, new in zip(average.parameters(), model.parameters(), strict=True):
                            old.lerp_(new, 0.01)
        accuracy = evaluate(average or model, val)
        print(f"epoch {epoch + 1}: accuracy {accuracy:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
        if accuracy > best:
            best = accuracy
            if training["keep_best"] == "memory":
                kept = copy.deepcopy((average or model).state_dict())
            else:
                torch.save((average or model).state_dict(), "best.pt")
    model.load_state_dict(kept if kept is not None else torch.load("best.pt"))
    test = DataLoader(table(data["test_rows"], data["features"], 2), evaluation["batch_size"] * 4)
    print(f"test: accuracy {evaluate(model, test):.3f}", flush=True)


if __name__ == "__main__":
    main()
