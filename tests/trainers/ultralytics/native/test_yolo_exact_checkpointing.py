"""Gradient checkpointing of YOLO models: the same training step to the last bit, and checkpoints that need nothing of ours."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.shapes import ShapesData
from tests.helpers.yolo_exact import SUFFIXES, trained_batch


def one_step(model: torch.nn.Module, batch: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Gradients and buffers after one forward and backward pass."""
    torch.manual_seed(0)
    loss, _ = model({key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in batch.items()})
    loss.sum().backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, dict(model.named_buffers())


@pytest.mark.parametrize("family", ["yolov8n", "yolo11n", "yolo26n"])
@pytest.mark.parametrize("task", SUFFIXES)
def test_a_checkpointed_step_has_the_same_gradients_and_statistics(
    exact: Any, shapes: Callable[..., ShapesData], tmp_path: Path, task: str, family: str
) -> None:
    plain, batch = trained_batch(exact, task, f"{family}{SUFFIXES[task]}.yaml", shapes(task), tmp_path / "run")
    checkpointed = copy.deepcopy(plain)
    exact.checkpointing.switch(on=False)
    gradients, buffers = one_step(plain, batch)
    exact.checkpointing.switch(on=True)
    gradients_again, buffers_again = one_step(checkpointed, batch)

    assert len(gradients) > 50
    assert gradients.keys() == gradients_again.keys()
    assert max((gradients[name] - gradients_again[name]).abs().max().item() for name in gradients) == 0
    assert max((buffers[name].float() - buffers_again[name].float()).abs().max().item() for name in buffers) == 0
    tracked = {int(value) for name, value in buffers_again.items() if name.endswith("num_batches_tracked")}
    assert tracked == {1}, "batches that went into the running statistics"


def test_checkpointing_really_keeps_less_for_backward(exact: Any, shapes: Callable[..., ShapesData], tmp_path: Path) -> None:
    model, batch = trained_batch(exact, "detect", "yolov8n.yaml", shapes(), tmp_path / "run")

    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}

    def kept_bytes() -> int:
        kept: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.untyped_storage().data_ptr() not in weights:
                kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            outputs = model.predict(batch["img"])
        del outputs
        return sum(kept.values())

    exact.checkpointing.switch(on=False)
    plain = kept_bytes()
    exact.checkpointing.switch(on=True)
    assert kept_bytes() < 0.4 * plain


@pytest.mark.slow
def test_a_checkpoint_of_a_checkpointed_run_loads_where_autofit_is_not(exact_run: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from ultralytics import YOLO; model = YOLO(sys.argv[1]); model.model.float();"
        "import torch; model.model.train()(torch.zeros(2, 3, 64, 64));"
        "ours = ('autofit_launcher', '_autofit', 'exact_', 'layer_checkpointing');"
        "assert not [name for name in sys.modules if name.startswith(ours)]; print('loaded', model.task)"
    )
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "YOLO_EXACT")}
    env |= {"YOLO_CONFIG_DIR": str(tmp_path), "YOLO_OFFLINE": "1"}
    for name in ("best.pt", "last.pt"):
        command = [sys.executable, "-I", "-c", program, str(exact_run / "run" / "weights" / name)]
        ran = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)
        assert "loaded detect" in ran.stdout, ran.stderr
