"""Lightning's Trainer gets the accumulation of a rung as it is made; its data module's loader is known by its own line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.trainers.script import outside, recognise

SCRIPT = """import torch, lightning as L
from torch.utils.data import DataLoader, TensorDataset

class Data(L.LightningDataModule):
    def __init__(self, batch_size=16):
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.rand(64, 4)), batch_size=self.hparams.batch_size)

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        return self.layer(batch[0]).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

if __name__ == "__main__":
    trainer = L.Trainer(max_epochs=1, accumulate_grad_batches=2, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(Model(), Data())
    print("steps", trainer.global_step, "of", trainer.accumulate_grad_batches, "micro-batches", trainer.num_training_batches)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)


def test_what_the_source_gives_is_found() -> None:
    found = recognise.understand([sys.executable, "train.py"])
    assert found.ask == {"micro_batch": 16, "accumulation": 2} and not found.doubts
    assert found.args["spelled"] == {"micro_batch": "loader:train.py:10", "accumulation": "call:accumulate_grad_batches"}


@pytest.mark.parametrize(("given", "steps"), [(2, "steps 2 of 8 micro-batches 16"), (3, "steps 8 of 2 micro-batches 16")])
def test_a_trainer_that_was_made_as_it_was_seen_accumulates_as_told(given: int, steps: str) -> None:
    place = Path("native").absolute()
    more, files = outside.set_trainer(given, 8, place=place, env={})
    variables, beside = outside.placed(1, split=(16, 4, "train.py:10"), place=place, env=more)
    for path, text in {**files, **beside}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    env = {**os.environ, **more, **variables}
    done = subprocess.run([sys.executable, "train.py"], env=env, capture_output=True, text=True, timeout=120, check=True)
    assert steps in done.stdout
    assert ("Trainer(accumulate_grad_batches=2) is left as it is: the launch was made for 3" in done.stderr) is (given == 3)
