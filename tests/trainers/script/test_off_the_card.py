"""A look at a script that trains on a card sees the card and takes nothing of it: a pretended one shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.pretended import cards, catalogue
from launcher.trainers.script.inside.look import looked
from tests.helpers.pretended import needs_a_pretended_card

SOURCE = """
import pynvml, torch
from torch.utils.data import DataLoader, Dataset

pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)

class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        assert not pynvml.nvmlDeviceGetComputeRunningProcesses(card), "it took memory of the card"
        return torch.rand(4)

assert torch.cuda.is_available()
torch.cuda.set_device(0)
device = torch.device("cuda", 0)
model = torch.nn.Linear(4, 2).to(device)
weight, state = torch.ones(2, device="cuda"), torch.randn(3).cuda()
torch.save(model.state_dict(), "w.pt")
model.load_state_dict(torch.load("w.pt", map_location=device))
moved = torch.zeros(2).to(0) + weight + torch.zeros_like(weight, device=device)
pinned = torch.rand(3).pin_memory()
loader = DataLoader(Rows(), 8 * torch.cuda.device_count(), pin_memory=True)
for x in loader:
    model(x.to("cuda:0", non_blocking=True)).sum().backward()
"""


@needs_a_pretended_card
def test_a_look_sees_the_cards_and_takes_nothing_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SOURCE)
    (model,) = catalogue.named(["a100_40gb"])
    with cards.played(cards.Cards(model=model, count=2)) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        plain = subprocess.run([sys.executable, "train.py"], env=dict(os.environ), capture_output=True, text=True, check=False)
        assert "it took memory of the card" in plain.stderr, "where nothing keeps it off"
        found = looked([sys.executable, "train.py"], seconds=120)
    assert found.get("batch") == 16, found
