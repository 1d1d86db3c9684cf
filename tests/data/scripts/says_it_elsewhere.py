"""Fault: a file that no word of the command names says another batch and accumulation than the parser's defaults."""

import json
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset
from usual import Usual

usual = Usual()
said = json.loads(Path("profile.txt").read_text())
typed = {name for name in ("batch_size", "accum") if "--" + name.replace("_", "-") in sys.argv}
batch_size, usual.args.accum = (getattr(usual.args, name) if name in typed else said[name] for name in ("batch_size", "accum"))
x = torch.randn(6 * said["batch_size"] * said["accum"], 32)
usual.train = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=batch_size, shuffle=True)
usual.train_for(2)
print("trained", batch_size, "x", usual.args.accum, flush=True)
