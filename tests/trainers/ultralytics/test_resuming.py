"""Which of Ultralytics' checkpoints are gone on from: those that are whole, told without autofit having written them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.saved import Looked, spoiled, whole

pytest.importorskip("ultralytics")
import torch

from autofit_launcher.trainers.ultralytics import resuming


def saved(path: Path, *, epoch: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    torch.save({"epoch": epoch, "model": torch.nn.Linear(64, 64), "optimizer": {"state": {}}, "train_args": {"epochs": 9}}, path)
    return path


def look(place: Path) -> Looked:
    return resuming.look(resuming.saved(place / "weights"))


def test_a_checkpoint_with_a_flipped_bit_is_passed_over_though_torch_loads_it(tmp_path: Path) -> None:
    last, best = saved(tmp_path / "weights" / "last.pt", epoch=4), saved(tmp_path / "weights" / "best.pt", epoch=2)
    assert [(one.path, one.done) for one in whole(look(tmp_path))] == [(last, 5), (best, 3)]
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 0x10
    last.write_bytes(data)
    assert torch.load(last, weights_only=False)["epoch"] == 4
    assert [one.path for one in whole(look(tmp_path))] == [best]


def test_what_cant_be_gone_on_from_is_named_with_why(tmp_path: Path) -> None:
    last, best = saved(tmp_path / "weights" / "last.pt", epoch=4), saved(tmp_path / "weights" / "best.pt", epoch=2)
    last.write_bytes(last.read_bytes()[:500])
    diverged = torch.load(best, weights_only=False)
    diverged["model"].weight.data[3, 5] = float("nan")
    torch.save(diverged, best)
    (tmp_path / "weights" / "epoch1.pt").write_bytes(b"")
    told = look(tmp_path)
    assert not whole(told)
    assert list(told) == [last, best, tmp_path / "weights" / "epoch1.pt"] or set(told) == {last, best, tmp_path / "weights" / "epoch1.pt"}
    assert "zip" in str(told[last]) and told[best] == "its weights are not finite"
    assert "empty" in str(told[tmp_path / "weights" / "epoch1.pt"])
    saved(best, epoch=2)
    assert best not in spoiled(look(tmp_path))


def test_the_last_validation_takes_no_torn_best(tmp_path: Path) -> None:
    last, best = saved(tmp_path / "weights" / "last.pt", epoch=8), saved(tmp_path / "weights" / "best.pt", epoch=2)
    assert resuming.best(tmp_path / "weights") == best
    best.write_bytes(best.read_bytes()[:500])
    assert resuming.best(tmp_path / "weights") == last
