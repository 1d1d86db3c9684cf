"""Writes by libraries that open files in native code, into a folder that it makes, and reads that again."""

import importlib.util
import sqlite3

assert importlib.util.find_spec("torch") and importlib.util.find_spec("tokenizers")  # as libraries look whether others are there

import os

import numpy
import pyarrow
import pyarrow.parquet
import soundfile
import tokenizers
import torch
from torch import nn
from torchvision.io import image
from usual import Usual

usual = Usual()
out = "out/native"
rows = sqlite3.connect("rows.db")
rows.execute("create table if not exists rows (row)")
with rows:
    rows.execute("insert into rows values (1)")
assert sqlite3.connect("rows.db").execute("select count(*) from rows").fetchone() == (1,) and sqlite3.connect(":memory:")
for _ in range(3):
    usual.one_pass()
    usual.validate()
    os.makedirs(out, exist_ok=True)
    words = tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a")
    words.save(out)
    tokenizers.Tokenizer(words).save(f"{out}/tokenizer.json")
    assert tokenizers.Tokenizer.from_file(f"{out}/tokenizer.json").get_vocab_size() == 2
    torch.jit.save(torch.jit.script(nn.Linear(32, 4)), f"{out}/model.jit")
    assert torch.jit.load(f"{out}/model.jit")(usual.x[:2]).shape == (2, 4)
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
