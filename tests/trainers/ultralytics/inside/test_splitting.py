"""A late out-of-memory of Ultralytics' training: gradients are those of its own accumulation of the halves."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ultralytics.nn.tasks import DetectionModel
from ultralytics.utils import IterableSimpleNamespace

from launcher.trainers.ultralytics.inside import splitting
from launcher.worker.splitting import CannotSplit

FULL = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."
IMAGES, SIZE = 4, 64


class Scaler:
    """As torch's, where nothing is scaled by more than a number."""

    def scale(self, loss: Any) -> Any:
        return loss * 2.0

    def get_scale(self) -> float:
        return 2.0


class Trainer(SimpleNamespace):
    """What of Ultralytics' trainer is asked for."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def model() -> Any:
    torch.manual_seed(0)
    made = DetectionModel("yolov8n.yaml", nc=3, verbose=False)
    made.args = IterableSimpleNamespace(box=7.5, cls=0.5, dfl=1.5, epochs=10, overlap_mask=True)
    return made.train()


def batch() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    of = torch.tensor([0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 3.0])
    return {
        "img": torch.rand(IMAGES, 3, SIZE, SIZE, generator=generator), "batch_idx": of, "cls": torch.zeros(len(of), 1),
        "bboxes": torch.tensor([[0.5, 0.5, 0.4, 0.4]]).repeat(len(of), 1), "im_file": [f"{number}.jpg" for number in range(IMAGES)],
        "ori_shape": [(SIZE, SIZE)] * IMAGES,
    }  # fmt: skip


def gradients(of: Any) -> dict[str, Any]:
    return {name: weight.grad.clone() for name, weight in of.named_parameters() if weight.grad is not None}


def fails(of: Any, way: str, *, layer: int = 8) -> None:
    """More than half of the images find no room in a layer."""

    def full(value: Any) -> None:
        if len(value) > IMAGES // 2:
            raise RuntimeError(FULL)

    def hook(module: Any, given: Any, found: Any) -> None:
        if way == "forward":
            full(found)
        elif found.requires_grad:
            found.register_hook(full)

    of.model[layer].register_forward_hook(hook)


def step(of: Any, trainer: Trainer, took: Any = None, given: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """One micro-batch as Ultralytics' loop has it."""
    given = given or batch()
    loss, items = took.loss(given, of.loss) if took is not None else of.loss(given)
    trainer.scaler.scale(loss.sum()).backward()
    return loss.detach(), items


def halves(of: Any, trainer: Trainer) -> list[Any]:
    """Ultralytics' own accumulation of two micro-batches; the losses."""
    return [step(of, trainer, given=splitting._some_images(batch(), at, at + 2, overlapping_masks=True))[0] for at in (0, 2)]


def alike(one: Any, other: Any) -> bool:
    return torch.allclose(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max() + 1))


def test_the_gradients_are_those_of_the_halves(capfd: pytest.CaptureFixture[str]) -> None:
    plain, split = model(), model()
    trainer = Trainer(model=split, scaler=Scaler(), epoch=0, args=split.args)
    losses = halves(plain, trainer)
    fails(split, "forward")
    loss, items = step(split, trainer, splitting._Training(trainer))
    expected, found = gradients(plain), gradients(split)
    assert expected.keys() == found.keys()
    assert [name for name, gradient in expected.items() if not alike(found[name], gradient)] == []
    assert torch.allclose(loss, losses[0] + losses[1], rtol=1e-5)
    assert items is not None
    for (name, value), (_, other) in zip(plain.named_buffers(), split.named_buffers(), strict=True):
        assert torch.allclose(value.float(), other.float(), atol=1e-6), name
    assert "a micro-batch found no room in epoch 1; its 4 rows were taken again, 2 at once" in capfd.readouterr().err


def test_what_a_failed_backward_pass_had_reached_keeps_the_gradient_of_all_and_the_rest_has_that_of_the_halves() -> None:
    whole, plain, split = model(), model(), model()
    trainer = Trainer(model=split, scaler=Scaler(), epoch=0, args=split.args)
    step(whole, trainer)
    halves(plain, trainer)
    fails(split, "backward")
    step(split, trainer, splitting._Training(trainer))
    of_all, of_halves, found = gradients(whole), gradients(plain), gradients(split)
    own = {name for name, gradient in found.items() if alike(gradient, of_all[name])}
    assert "model.22.cv2.0.0.conv.weight" in own
    assert "model.0.conv.weight" not in own
    assert [name for name, gradient in found.items() if name not in own and not alike(gradient, of_halves[name])] == []


def test_a_micro_batch_is_let_go_with_its_backward_pass() -> None:
    """Ultralytics holds the loss until it has the next one: a trial, which has nothing of this, holds no images by it."""
    made = model()
    trainer = Trainer(model=made, scaler=Scaler(), epoch=0, args=made.args)
    given = batch()
    images = weakref.ref(given["img"])
    loss, _ = splitting._Training(trainer).loss(given, made.loss)
    held = trainer.scaler.scale(loss.sum())
    held.backward()
    del given, loss
    gc.collect()
    assert images() is None
    assert held.grad_fn is not None


def test_later_micro_batches_come_in_parts_at_once() -> None:
    plain, split = model(), model()
    trainer = Trainer(model=split, scaler=Scaler(), epoch=0, args=split.args)
    took = splitting._Training(trainer)
    fails(split, "forward")
    for _ in range(2):
        step(split, trainer, took)
        for at in (0, 2):
            step(plain, trainer, given=splitting._some_images(batch(), at, at + 2, overlapping_masks=True))
    for name, gradient in gradients(plain).items():
        assert torch.allclose(gradients(split)[name], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max() + 1)), name


def test_where_all_finds_room_nothing_changes() -> None:
    plain, split = model(), model()
    trainer = Trainer(model=split, scaler=Scaler(), epoch=0, args=split.args)
    expected, found = step(plain, trainer), step(split, trainer, splitting._Training(trainer))
    assert torch.equal(expected[0], found[0])
    for name, gradient in gradients(plain).items():
        assert torch.equal(gradients(split)[name], gradient), name


def test_a_gradient_that_is_not_the_scalers_ends_the_run() -> None:
    split = model()
    trainer = Trainer(model=split, scaler=Scaler(), epoch=0, args=split.args)
    took = splitting._Training(trainer)
    fails(split, "forward")
    loss, _ = took.loss(batch(), split.loss)
    with pytest.raises(RuntimeError, match="out of memory, and a micro-batch can't be taken in parts"):
        (loss.sum() * 3.0).backward()


def test_images_take_their_targets_with_them() -> None:
    part = splitting._some_images({**batch(), "masks": torch.arange(IMAGES).view(-1, 1, 1)}, 2, 4, overlapping_masks=True)
    assert part["batch_idx"].tolist() == [0.0, 1.0, 1.0, 1.0]
    assert part["bboxes"].shape == (4, 4)
    assert part["im_file"] == ["2.jpg", "3.jpg"]
    assert part["masks"].flatten().tolist() == [2, 3]
    of_targets = splitting._some_images({**batch(), "masks": torch.arange(7).view(-1, 1, 1)}, 2, 4, overlapping_masks=False)
    assert of_targets["masks"].flatten().tolist() == [3, 4, 5, 6]
    classes = splitting._some_images({"img": torch.zeros(4, 3, 8, 8), "cls": torch.arange(4)}, 1, 3, overlapping_masks=True)
    assert classes["cls"].tolist() == [1, 2]
    with pytest.raises(CannotSplit, match="other has 5 rows"):
        splitting._some_images({**batch(), "other": torch.zeros(5)}, 0, 2, overlapping_masks=True)


def test_a_checkpoint_that_finds_no_room_ends_with_the_first_error(tmp_path: Path) -> None:
    """Under a real limit: Ultralytics tries again four times, on a buffer that the first failure has closed."""
    program = """
import io, resource, sys
import torch, ultralytics
from launcher.trainers.ultralytics.inside import splitting
splitting.install()
from ultralytics.utils import patches
weights = {str(number): torch.zeros(1 << 18) for number in range(200)}
torch.save = patches.torch_save
with open("/proc/self/status") as file:
    now = next(1024 * int(line.split()[1]) for line in file if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (now + (60 << 20), resource.getrlimit(resource.RLIMIT_DATA)[1]))
torch.save(weights, io.BytesIO())
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.returncode == 1
    assert found.stderr.strip().splitlines()[-1].startswith("MemoryError: a checkpoint found no room: "), found.stderr[-2000:]
