"""Writes by libraries that open files in native code, into a folder that it makes, and reads that again."""

import argparse
import importlib.util

assert importlib.util.find_spec("torch") and importlib.util.find_spec("tokenizers")  # as libraries look whether others are there

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--width", type=int, default=256)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(640, 32)
data = TensorDataset(x, x[:, :4].argmax(1))
train = DataLoader(data, batch_size=args.batch_size, shuffle=True)
val = DataLoader(TensorDataset(*data[:256]), batch_size=args.batch_size)
model = nn.Sequential(nn.Linear(32, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def step(batch):
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    (loss / args.accum).backward()
    return loss


def validate():
    model.eval()
    with torch.no_grad():
        right = sum(int((model(a).argmax(1) == b).sum()) for a, b in val)
    model.train()
    print("accuracy", right / 256, flush=True)


import os

import numpy
import pyarrow
import pyarrow.parquet
import soundfile
import tokenizers
from torchvision.io import image

out = "out/native"
for _ in range(3):
    for number, batch in enumerate(train, start=1):
        step(batch)
        if number % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    validate()
    os.makedirs(out, exist_ok=True)
    words = tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a")
    words.save(out)
    tokenizers.Tokenizer(words).save(f"{out}/tokenizer.json")
    assert tokenizers.Tokenizer.from_file(f"{out}/tokenizer.json").get_vocab_size() == 2
    torch.jit.save(torch.jit.script(nn.Linear(32, 4)), f"{out}/model.jit")
    assert torch.jit.load(f"{out}/model.jit")(x[:2]).shape == (2, 4)
    image.write_png(torch.zeros(3, 8, 8, dtype=torch.uint8), f"{out}/black.png")
    assert image.read_image(f"{out}/black.png").shape == (3, 8, 8)
    pyarrow.parquet.write_table(pyarrow.table({"n": [1, 2]}), f"{out}/table.parquet")
    assert pyarrow.parquet.read_table(f"{out}/table.parquet").num_rows == 2
    soundfile.write(f"{out}/tone.wav", numpy.zeros(80), 8000)
    with soundfile.SoundFile(f"{out}/tone.wav", "r+") as sound:
        sound.seek(0, soundfile.SEEK_END)
        sound.write(numpy.zeros(80))
    assert len(soundfile.read(f"{out}/tone.wav")[0]) == 160
    assert sorted(os.listdir(out)) == ["black.png", "model.jit", "table.parquet", "tokenizer.json", "tone.wav", "vocab.json"], os.listdir(
        out
    )
