"""Two processes that Lightning starts by itself: its Trainer, or Fabric with a loop of one's own."""

import argparse

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 4))

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("loss", self.training_step(batch, _), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def by_trainer(args, train, val):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, accumulate_grad_batches=args.accum, **quiet)
    trainer.fit(Net(), train, val)


def by_fabric(args, train, val):
    fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 4))
    net, optimizer = fabric.setup(net, torch.optim.AdamW(net.parameters(), lr=1e-3))
    train, val = fabric.setup_dataloaders(train, val)
    for _ in range(3):
        net.train()
        for number, (x, y) in enumerate(train, start=1):
            fabric.backward(nn.functional.cross_entropy(net(x), y) / args.accum)
            if number % args.accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        net.eval()
        with torch.no_grad():
            right = sum(int((net(x).argmax(1) == y).sum()) for x, y in val)
        fabric.print(right)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--by", choices=("trainer", "fabric"), required=True)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--accum", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(2048, 64)
    data = TensorDataset(x, x[:, :4].argmax(1))
    train, val = DataLoader(data, args.batch_size, shuffle=True), DataLoader(data, args.batch_size)
    (by_trainer if args.by == "trainer" else by_fabric)(args, train, val)


if __name__ == "__main__":
    main()
