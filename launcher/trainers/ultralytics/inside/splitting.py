"""A late out-of-memory of Ultralytics' training costs no step: a micro-batch, or a batch of the validation, is taken again in halves.

Loaded into full runs. Ultralytics calls ``model(batch)`` and, later, ``backward`` on its loss. Here the loss that it gets is a leaf: when
its gradient has come, the model's own backward pass runs, and what it holds can be let go if it fails. A micro-batch that is known to be
too large is taken in parts at once, each with its backward pass, for the gradient that the scaler is about to give; another one is an
error. Parts add up as Ultralytics' own accumulation does: each is divided by its own targets, and batch norm sees its own images.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....worker import saving, splitting
from ....worker.after_import import after_import
from ....worker.splitting import CannotSplit, Splitting
from . import lean_saves

OF_TARGETS = ("batch_idx", "cls", "bboxes", "keypoints")
"""What a batch has one row of for each target; ``batch_idx`` says of which image."""
_training: weakref.WeakKeyDictionary[Any, _Training] = weakref.WeakKeyDictionary()
_validations: weakref.WeakKeyDictionary[Any, Splitting] = weakref.WeakKeyDictionary()


def install() -> None:
    """In this process, as soon as Ultralytics' models and callbacks are there."""
    saving.install()
    lean_saves.install()
    after_import({"ultralytics.utils.patches": _patches})
    if splitting.alone():
        after_import({"ultralytics.nn.tasks": _models, "ultralytics.utils.callbacks.base": _callbacks})


def _patches(module: Any) -> None:
    """What its ``torch.save`` tries again; it may have been imported before this."""
    module._torch_save = saving.said(module._torch_save)


def _callbacks(module: Any) -> None:
    module.default_callbacks["on_train_start"].append(_train_starts)


def _train_starts(trainer: Any) -> None:
    model = trainer.model
    if not getattr(trainer.args, "compile", False) and hasattr(model, "loss"):
        splitting.take_care("ultralytics")
        _training[model] = _Training(trainer)


def _models(module: Any) -> None:
    plain = module.BaseModel.forward

    def forward(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        def one(given: Any) -> Any:
            return plain(self, given, *args, **kwargs)

        if isinstance(x, dict):
            training = _training.get(self)
            return training.loss(x, one) if training is not None and self.training and torch.is_grad_enabled() else one(x)
        if self.training or torch.is_grad_enabled() or not isinstance(x, torch.Tensor):
            return one(x)
        return _predicted(self, x, one)

    module.BaseModel.forward = forward


class _Training:
    """The micro-batches of one training."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = weakref.proxy(trainer)
        self._took = Splitting("a micro-batch", model=trainer.model)

    def loss(self, batch: dict[str, Any], plain: Callable[[Any], Any]) -> tuple[Any, Any]:
        """(loss, what it consists of) of a batch; its ``backward`` gives the model its gradients."""
        rows, where = len(batch["img"]), f" in epoch {self._trainer.epoch + 1}"
        part = self._part(batch, plain, _autocast(batch["img"].device.type))
        if not self._took.fits(rows):
            return self._summed(self._took.take(rows, part, lambda: None, where=where))
        before = self._took.before()
        try:
            loss, items = plain(batch)
        except BaseException as error:
            if rows < 2 or not splitting.of_memory(error):
                raise
            traceback.clear_frames(error.__traceback__)
            failed = error.with_traceback(None)
        else:
            return self._leaf(loss, lambda failed: self._took.again(rows, part, failed, before, where=where)), items
        return self._summed(self._took.again(rows, part, failed, before, where=where))

    def _part(self, batch: dict[str, Any], plain: Callable[[Any], Any], autocast: Callable[[], Any]) -> Callable[[int, int], Any]:
        import torch

        overlaps = bool(getattr(self._trainer.args, "overlap_mask", True))

        def part(first: int, last: int) -> tuple[int, Any, Any]:
            with torch.enable_grad():
                with autocast():
                    loss, items = plain(_some_images(batch, first, last, overlapping_masks=overlaps))
                self._trainer.scaler.scale(loss.sum()).backward()
            return last - first, loss.detach(), items

        return part

    def _leaf(self, loss: Any, again: Callable[[BaseException], object]) -> Any:
        """The loss as a leaf, whose gradient starts the model's backward pass."""
        import torch

        held, retake = [loss], [again]  # let go: Ultralytics holds the leaf until it has the next loss

        def backward(leaf: Any) -> None:
            again = retake.pop()
            try:
                with torch.enable_grad(), splitting.backward.outermost():
                    held.pop().backward(leaf.grad)
                return
            except BaseException as error:
                if not splitting.of_memory(error):
                    raise
                traceback.clear_frames(error.__traceback__)
                failed = error.with_traceback(None)
            self._expect(leaf)
            again(failed)

        leaf = loss.detach().requires_grad_()
        leaf.register_post_accumulate_grad_hook(backward)
        return leaf

    def _summed(self, found: Sequence[tuple[int, Any, Any]]) -> tuple[Any, Any]:
        """(loss, what it consists of) of parts that have had their backward passes."""
        leaf = functools.reduce(lambda one, other: one + other, [loss for _, loss, _ in found]).requires_grad_()
        leaf.register_post_accumulate_grad_hook(self._expect)
        return leaf, _mean_of([(size, items) for size, _, items in found])

    def _expect(self, leaf: Any) -> None:
        """Parts have their backward passes for a gradient of the scaler's alone: another one is another training."""
        scale = self._trainer.scaler.get_scale()
        if not bool((leaf.grad == scale).all()):
            raise RuntimeError(f"out of memory, and a micro-batch can't be taken in parts: its loss's gradient is {leaf.grad}, not {scale}")


def _autocast(device: str) -> Callable[[], Any]:
    """Opens what is open now: a backward pass has none."""
    import torch

    if not torch.is_autocast_enabled(device):
        return contextlib.nullcontext
    return functools.partial(torch.autocast, device, dtype=torch.get_autocast_dtype(device))


def _some_images(batch: Mapping[str, Any], first: int, last: int, *, overlapping_masks: bool) -> dict[str, Any]:
    """The batch of these images and their targets. Raises CannotSplit where it isn't known what belongs to which."""
    import torch

    images, targets = len(batch["img"]), batch.get("batch_idx")
    own = (targets >= first) & (targets < last) if targets is not None else None

    def of(name: str, value: Any) -> Any:
        if own is not None and (name in OF_TARGETS or (name == "masks" and not overlapping_masks)):
            return value[own.view(-1)] - (first if name == "batch_idx" else 0)
        if (isinstance(value, torch.Tensor) and value.dim()) or isinstance(value, list | tuple):
            if len(value) != images:
                raise CannotSplit(f"{name} has {len(value)} rows, and there are {images} images")
            return value[first:last]
        return value

    return {name: of(name, value) for name, value in batch.items()}


def _mean_of(found: Sequence[tuple[int, Any]]) -> Any:
    """The mean of what losses consist of: tensors, or tensors by name."""
    images = sum(size for size, _ in found)
    first = found[0][1]
    if isinstance(first, dict):
        return {name: sum(size * items[name] for size, items in found) / images for name in first}
    return sum(size * items for size, items in found) / images


def _predicted(model: Any, images: Any, plain: Callable[[Any], Any]) -> Any:
    took = _validations.setdefault(model, Splitting("a batch of images to predict"))
    found = took.take(len(images), lambda first, last: (last - first, plain(images[first:last])), lambda: (len(images), plain(images)))
    return found[0][1] if len(found) == 1 else splitting.joined(*zip(*found, strict=True))
