"""A checkpoint of Ultralytics for which memory has no room is put together on the disk, and is the same."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch

from launcher.trainers.ultralytics.inside.lean_saves import lean


class Trainer:
    """Saves as ``BaseTrainer.save_model`` of 8.4.190 does."""

    def __init__(self, folder: Path) -> None:
        self.wdir, self.last, self.calls = folder, folder / "last.pt", 0

    def save_model(self) -> bool:
        self.calls += 1
        buffer = io.BytesIO()
        if isinstance(buffer, io.BytesIO) and self.calls < 3:  # nobody's question may fail meanwhile
            raise MemoryError
        torch.save({"ema": torch.arange(100_000.0)}, buffer)
        self.last.write_bytes(buffer.getvalue())
        return True


def test_a_checkpoint_without_room_is_made_on_the_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer, plain = Trainer(tmp_path), io.BytesIO
    assert lean(Trainer.save_model)(trainer) and trainer.calls == 2
    assert torch.equal(torch.load(trainer.last)["ema"], torch.arange(100_000.0))
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"] and io.BytesIO is plain
    assert "a checkpoint found no room in memory" in capsys.readouterr().err
    expected = trainer.last.read_bytes()
    trainer.calls = 2
    assert lean(Trainer.save_model)(trainer) and trainer.last.read_bytes() == expected, "to the byte"


def test_a_disk_without_room_either_leaves_the_first_error(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path / "nowhere")
    with pytest.raises(MemoryError):
        lean(Trainer.save_model)(trainer)


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    calls: list[Any] = []

    def fails(self: Any) -> None:
        calls.append(self)
        raise ValueError("no such optimizer")

    with pytest.raises(ValueError, match="no such"):
        lean(fails)(Trainer(tmp_path))
    assert len(calls) == 1
