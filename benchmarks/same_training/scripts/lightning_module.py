"""A LightningModule, with automatic or manual optimization."""

import argparse

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--accumulate_grad_batches", type=int, default=1)
parser.add_argument("--max_epochs", type=int, default=2)
parser.add_argument("--manual", action="store_true")
args = parser.parse_args()


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
        self.automatic_optimization = not args.manual

    def training_step(self, batch, number):
        loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
        if args.manual:
            self.manual_backward(loss / args.accumulate_grad_batches)
            if (number + 1) % args.accumulate_grad_batches == 0:
                self.optimizers().step()
                self.optimizers().zero_grad()
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


lightning.seed_everything(0)
loader = DataLoader(TensorDataset(torch.randn(48, 32), torch.randint(0, 5, (48,))), args.batch_size, shuffle=True)
trainer = lightning.Trainer(
    accelerator="cpu",
    max_epochs=args.max_epochs,
    accumulate_grad_batches=1 if args.manual else args.accumulate_grad_batches,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
model = Classifier()
trainer.fit(model, loader)
torch.save(model.state_dict(), "model.pt")
