"""Each checkpoint is a folder of files that accelerate's ``save_state`` writes one after another, a counter of the script's last."""

import argparse
import json
import os
import signal
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--pause", type=float, default=0.05)
parser.add_argument("--out", default="out")
parser.add_argument("--dies-in", type=int, default=-1, help="once, in the save of that epoch of its full run, before the last file")
parser.add_argument("--in-place", action="store_true", help="each over the one before")
parser.add_argument("--resume")
args = parser.parse_args()


class Counter:
    """How far it has come."""

    epoch = step = 0

    def state_dict(self):
        if "AUTOFIT_HELD" in os.environ and self.epoch - 1 == args.dies_in and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"epoch": self.epoch, "step": self.step}

    def load_state_dict(self, said):
        self.epoch, self.step = said["epoch"], said["step"]


torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,)))
train = DataLoader(data, batch_size=args.batch_size)
val = DataLoader(data, batch_size=16)
model = nn.Sequential(
    nn.Conv2d(3, 128, 3), nn.ReLU(), nn.Conv2d(128, 32, 3), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
    nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 10),
)  # fmt: skip
model, optimizer, train = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-4), train)
counter = Counter()
accelerator.register_for_checkpointing(counter)
out = Path(args.out)
out.mkdir(parents=True, exist_ok=True)
if args.resume:
    accelerator.load_state(args.resume)
    print(f"going on from epoch {counter.epoch}", flush=True)
while counter.epoch < args.epochs:
    model.train()
    for number, (images, labels) in enumerate(train, start=1):
        loss = nn.functional.cross_entropy(model(images), labels) / args.accum
        accelerator.backward(loss)
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
            counter.step += 1
            time.sleep(args.pause)
            print(f"epoch {counter.epoch} step {counter.step} loss: {loss.item() * args.accum:.4f}", flush=True)
    print("validating", flush=True)
    model.eval()
    with torch.no_grad():
        validation = sum(nn.functional.cross_entropy(model(images), labels).item() for images, labels in val) / len(val)
    epoch, counter.epoch = counter.epoch, counter.epoch + 1
    print("saving", flush=True)
    accelerator.save_state(str(out / ("last" if args.in_place else f"epoch_{epoch}")))
    with (out / "metrics.jsonl").open("a") as file:
        batch = args.batch_size * args.accum
        file.write(json.dumps({"epoch": epoch, "steps": counter.step, "loss": validation, "batch": batch, "pid": os.getpid()}) + "\n")
