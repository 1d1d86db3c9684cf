"""Reads back the checkpoint it has just written, and appends to a log that is there."""

import os
import shutil
from pathlib import Path

import torch
from usual import Usual

usual = Usual()
out = Path("out")
for epoch in range(3):
    usual.one_pass()
    usual.validate()
    out.mkdir(exist_ok=True)
    shutil.copy2("model.pt", out / "best.pt")
    os.replace(out / "best.pt", out / "last.pt")
    assert [path.name for path in out.iterdir()] == ["last.pt"] and not Path("out/best.pt").exists()
    usual.model.load_state_dict(torch.load("out/last.pt"))
    with open("log.txt", "a") as log:
        log.write(f"epoch {epoch}\n")
    assert Path("log.txt").read_text().endswith(f"epoch {epoch}\n")
    os.remove("precious.txt")
    assert not os.path.exists("precious.txt") and "precious.txt" not in [one.name for one in os.scandir()]
    Path("precious.txt").write_text("overwritten")
