"""Which of a Trainer's checkpoints are gone on from: those that are whole, told without autofit having written them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from safetensors.torch import save_file

from launcher.trainers.transformers import resuming


def saved(output: Path, steps: int, *, trained: int = 4 * 4096) -> Path:
    """As Trainer writes one; the last tensor is half of zeros, as a padded vocabulary's."""
    folder = output / f"checkpoint-{steps}"
    folder.mkdir(parents=True)
    weights = {"a": torch.randn(trained), "z": torch.cat([torch.randn(2048), torch.zeros(2048)])}
    save_file(weights, folder / "model.safetensors")
    torch.save({"state": torch.randn(8192)}, folder / "optimizer.pt")
    torch.save({"lr": 1.0}, folder / "scheduler.pt")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": steps, "max_steps": 100}))
    return folder


def test_torn_corrupt_and_flipped_ones_are_passed_over_for_the_one_before(tmp_path: Path) -> None:
    flipped, zeros, unfinished, *_ = (saved(tmp_path, steps) for steps in (50, 40, 30, 20, 10))
    optimizer = bytearray((flipped / "optimizer.pt").read_bytes())
    optimizer[len(optimizer) // 2] ^= 0x10
    (flipped / "optimizer.pt").write_bytes(optimizer)
    assert torch.load(flipped / "optimizer.pt"), "torch itself says nothing of a flipped bit"
    weights = bytearray((zeros / "model.safetensors").read_bytes())
    weights[len(weights) // 2 :] = bytes(len(weights) - len(weights) // 2)
    (zeros / "model.safetensors").write_bytes(weights)
    (unfinished / "scheduler.pt").unlink()
    assert [one.done for one in resuming.checkpoints(tmp_path)] == [20], "of four that are looked at"
    told = resuming.spoiled(tmp_path)
    assert set(told) == {flipped, zeros, unfinished}
    assert "optimizer.pt" in told[flipped] and "ends in zeros" in told[zeros] and "missing" in told[unfinished]


def test_weights_that_are_not_finite_are_named_so(tmp_path: Path) -> None:
    only = saved(tmp_path, 10)
    save_file({"a": torch.full((4096,), float("nan"))}, only / "model.safetensors")
    assert not resuming.checkpoints(tmp_path) and resuming.spoiled(tmp_path) == {only: "its weights are not finite"}


def test_the_only_one_there_is_may_have_a_tensor_that_was_never_trained(tmp_path: Path) -> None:
    only = saved(tmp_path, 10, trained=10**6)
    assert [one.path for one in resuming.checkpoints(tmp_path)] == [only]
    weights = bytearray((only / "model.safetensors").read_bytes())
    weights[len(weights) // 2 :] = bytes(len(weights) - len(weights) // 2)
    (only / "model.safetensors").write_bytes(weights)
    assert not resuming.checkpoints(tmp_path)
