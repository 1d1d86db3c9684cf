"""Which of a Trainer's checkpoints are gone on from: those that are whole, told without autofit having written them."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
import torch
from safetensors.torch import save_file

from launcher.machine import host
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


def test_one_that_was_begun_is_none_while_nothing_else_was_saved(tmp_path: Path) -> None:
    """The run was killed in its very first save: it begins anew, as one does that was killed before it. Two of them are no such thing."""
    begun = saved(tmp_path, 10)
    state = begun / "trainer_state.json"
    state.write_text(state.read_text()[:10])
    assert not resuming.saved(tmp_path)
    state.unlink()
    assert not resuming.saved(tmp_path) and not resuming.checkpoints(tmp_path) and not resuming.spoiled(tmp_path)
    later = saved(tmp_path, 20)
    assert [one.path for one in resuming.checkpoints(tmp_path)] == [later]
    (later / "trainer_state.json").unlink()
    assert set(resuming.spoiled(tmp_path)) == {begun, later} and "never written to its end" in resuming.spoiled(tmp_path)[later]


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


def needed(output: Path, *, steps: int, per_epoch: int = 10, **args: Any) -> int | None:
    usual = {
        "save_strategy": "steps",
        "save_steps": 2,
        "save_total_limit": None,
        "load_best_model_at_end": False,
        "metric_for_best_model": None,
    }
    return resuming.kept_bytes(output, {**usual, **args}.__getitem__, steps=steps, per_epoch=per_epoch)


def test_what_a_run_keeps_is_counted_by_the_checkpoint_of_a_trial(tmp_path: Path) -> None:
    """One is written before an older one goes; at the end the model is written beside them."""
    one = host.disk_taken(saved(tmp_path, 2))
    (tmp_path / "model.safetensors").write_bytes(bytes(8192))
    end = host.disk_taken(tmp_path) - one
    assert end >= 8192 and needed(tmp_path, steps=10) == 5 * one + end
    assert needed(tmp_path, steps=11) == needed(tmp_path, steps=11, save_steps=1 / 6) == 6 * one + end, "the last step is saved, too"
    assert needed(tmp_path, steps=10, save_total_limit=2) == 3 * one
    assert needed(tmp_path, steps=2, save_total_limit=2) == one + end
    assert needed(tmp_path, steps=10, save_total_limit=1, load_best_model_at_end=True) == 3 * one, "the best one stays"
    assert needed(tmp_path, steps=25, save_strategy="epoch") == 3 * one + end
    assert needed(tmp_path, steps=10, save_strategy="no") == end
    assert needed(tmp_path / "none", steps=10) is None, "nothing was saved: nobody knows"


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [{}, {"save_total_limit": 2}, {"save_total_limit": 1, "load_best_model_at_end": True, "greater_is_better": True}]
)
def test_a_trainer_keeps_as_much_as_that(args: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first evaluation has the greatest loss: that checkpoint stays."""
    trainer: Any = importlib.import_module("transformers.trainer")
    rotate, most = trainer.rotate_checkpoints, 0

    def watched(**given: Any) -> None:
        nonlocal most
        most = max(most, host.disk_taken(tmp_path / "out"))
        rotate(**given)

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(512, 512)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": ((self.layer(x) - labels) ** 2).mean(), "logits": x}

    monkeypatch.setattr(trainer, "rotate_checkpoints", watched)
    rows = [{"x": torch.randn(512), "labels": torch.randn(512)} for _ in range(24)]
    given = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2, **args}
    told = trainer.TrainingArguments(
        str(tmp_path / "out"), max_steps=9, per_device_train_batch_size=4, use_cpu=True, report_to="none", **given
    )
    made = trainer.Trainer(Line(), told, train_dataset=rows, eval_dataset=rows[:4])
    made.train()
    made.save_model()
    most = max(most, host.disk_taken(tmp_path / "out"))
    one = tmp_path / "trial"
    shutil.copytree(next((tmp_path / "out").glob("checkpoint-*")), one / "checkpoint-2")
    shutil.copy(tmp_path / "out" / "model.safetensors", one)
    foreseen = needed(one, steps=9, **{"metric_for_best_model": told.metric_for_best_model, **args})
    assert foreseen is not None and 0.97 * foreseen <= most <= 1.01 * foreseen
