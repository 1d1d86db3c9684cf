"""Gradient accumulation for a training script that has no word for it: the script is not changed, and never hears of it.

As ``_autofit_accumulate.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every Python process of a command:

    PYTHONPATH=/that/folder ACCUMULATE=4 python train.py --batch-size 16

The script takes micro-batches (its own word for the batch, a ``ACCUMULATE``-th of what was meant) and believes that it steps after each
of them. ``optimizer.step`` is held back until ACCUMULATE micro-batches are in, gradients are weighted so that their sum is that of the
large batch, and what belongs to a step is held back with it: ``zero_grad``, the clipping of gradients, a GradScaler's ``unscale_``,
``step`` and ``update``, learning-rate schedulers that step with every batch, ``AveragedModel.update_parameters``. A pass over the data
ends with a step of its own, as it does with large batches: a last group that is smaller counts by its samples, and where the loader drops
its last batch, as many samples are left out. Until its first pass a shuffled loader tells its length in optimizer steps, so that a
schedule as long as training stays so.

What can't be held back raises ``NotExact`` in the first two optimizer steps, with the reason: an optimizer that is given a closure (LBFGS),
batches that are asked for one by one by a script that counts its steps, gradients thrown away between two steps, trainers that accumulate
themselves. Later on such things are told on stderr, and the run goes on. Whether the update is the large batch's is seen by whoever sets
it: autofit does, by short runs of the same rows.

ACCUMULATE_LOSS=sum is for a loss that is summed over the batch: its gradients are added up instead of averaged.
ACCUMULATE_SPLIT=64:16:train.py:31 is for a script that has no word for its batch: a DataLoader that is made in that line with batches of 64
is made with batches of 16. It needs nothing but torch, and the files beside it; what it did is told on stderr when the process ends.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from .imported import after_import, followed, weighted
from .loaders import is_made_at
from .steps import LOSS, HeldSteps, Outside, refuse_deepspeed

VARIABLE = "ACCUMULATE"
SPLIT = "ACCUMULATE_SPLIT"

OUTSIDE: Outside | None = None
"""The accumulation of this process, if there is any; for who watches."""


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    global OUTSIDE
    every = int(os.environ.get(VARIABLE) or 1)
    whole, part, place = (os.environ.get(SPLIT) or "::").split(":", 2)
    if every > 1 or part:
        outside = OUTSIDE = Outside(every, os.environ.get(LOSS, ""), (int(whole), int(part), place) if part else None)
        held = {"deepspeed.runtime.engine": refuse_deepspeed, "accelerate.data_loader": lambda module: install_accelerate(outside, module)}
        after_import({"torch": lambda torch: install(outside, torch), **(held if every > 1 else {})})


def install(outside: Outside, torch: Any) -> None:
    """Patches torch, which has just been imported."""
    atexit.register(outside.ended)  # which is called before loaders' workers are killed
    if outside.split is not None:
        _wrap(torch.utils.data.DataLoader, "__init__", lambda make: _split(make, outside, *outside.split))  # type: ignore[misc]
    _backward(outside, torch)
    for patch in (_zero_grad, _optimizers, _schedulers, _scaler, _clipping, _averaging, _loaders) if outside.every > 1 else ():
        patch(outside, torch)


def install_accelerate(outside: Outside, module: Any) -> None:
    """Patches accelerate's loaders, which fetch ahead and aren't really DataLoaders: they know better than those within what is trained."""
    for name in ("DataLoaderShard", "DataLoaderDispatcher"):
        if hasattr(module, name):
            _wrap(getattr(module, name), "__iter__", lambda begin: _begun(begin, outside))


def _wrap(kind: type, name: str, made: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts ``made`` around a class's method, its own or one that it inherits unwrapped."""
    method = getattr(kind, name)
    if not getattr(method, "_held_back", False):
        wrapped = made(method)
        wrapped._held_back = True  # type: ignore[attr-defined]
        setattr(kind, name, wrapped)


def _only_where(may: Callable[..., bool], method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which does nothing where ``may`` denies what it is called with."""

    @functools.wraps(method)
    def done(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs) if may(*args, **kwargs) else None

    return done


def _bare(optimizer: Any) -> Any:
    """The optimizer inside a wrapper (accelerate's)."""
    inner = getattr(optimizer, "optimizer", None)
    return inner if inner is not None and hasattr(inner, "param_groups") else optimizer


# ---- a model's backward pass


def _backward(outside: Outside, torch: Any) -> None:
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def scaled(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        if outside.every == 1:  # a trainer accumulates, and nothing else does
            outside.refuse_unsplit(None)
        if outside.every == 1 or outside.paused or outside.in_backward:  # or reentrant checkpointing: gradients are weighted already
            backward(tensors, grad_tensors, *args, **kwargs)
            return
        scale = outside.backward_begins()
        outside.in_backward = True
        try:
            backward(tensors, weighted(tensors, grad_tensors, scale), *args, **kwargs)
        finally:
            outside.in_backward = False
        outside.backward_done()

    torch.autograd.backward = scaled


def _zero_grad(outside: Outside, torch: Any) -> None:
    def may(this: Any, *_: Any, **__: Any) -> bool:
        return outside.cleared(outside.owner(this.parameters()))

    torch.nn.Module.zero_grad = _only_where(may, torch.nn.Module.zero_grad)


# ---- what steps


def _optimizers(outside: Outside, torch: Any) -> None:
    def may_clear(optimizer: Any, *_: Any, **__: Any) -> bool:
        return outside.cleared(outside.optimizers.get(optimizer))

    def made(optimizer: Any) -> None:
        outside.optimizers.setdefault(optimizer, HeldSteps())
        _wrap(type(optimizer), "step", lambda step: _step(step, outside))
        _wrap(type(optimizer), "zero_grad", lambda zero: _only_where(may_clear, zero))

    torch.optim.Optimizer.__init__ = followed(torch.optim.Optimizer.__init__, made)


def _step(step: Callable[..., Any], outside: Outside) -> Callable[..., Any]:
    @functools.wraps(step)
    def held_back(this: Any, *args: Any, **kwargs: Any) -> Any:
        closure = args[0] if args and callable(args[0]) else kwargs.get("closure")
        return outside.step(this, lambda: step(this, *args, **kwargs), closure)

    return held_back


def _schedulers(outside: Outside, torch: Any) -> None:
    schedulers = torch.optim.lr_scheduler
    for kind in (schedulers.LRScheduler, schedulers.ReduceLROnPlateau):
        kind.__init__ = followed(kind.__init__, lambda this: _wrap(type(this), "step", lambda step: _with_the_optimizer(step, outside)))


def _with_the_optimizer(step: Callable[..., Any], outside: Outside) -> Callable[..., Any]:
    @functools.wraps(step)
    def once(this: Any, *args: Any, **kwargs: Any) -> Any:
        held = outside.optimizers.get(_bare(getattr(this, "optimizer", None)))
        if outside.skips:
            return None
        if not outside.paused and held is not None and held.pending:
            outside.deferred[this] = lambda: step(this, *args, **kwargs)
            return None
        outside.deferred.pop(this, None)
        return step(this, *args, **kwargs)

    return once


def _scaler(outside: Outside, torch: Any) -> None:
    scaler = torch.amp.GradScaler
    step = scaler.step

    def is_free(this: Any, optimizer: Any) -> bool:
        return not this.is_enabled() or outside.paused or _bare(optimizer) not in outside.optimizers

    @functools.wraps(step)
    def stepped(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        really = functools.partial(step, this, optimizer, *args, **kwargs)
        if is_free(this, optimizer):
            return really()
        outside.scaler_held = not outside.due  # a step that it leaves out for an overflow is one that the large batch leaves out
        return outside.step(_bare(optimizer), really, kwargs.get("closure") if outside.scaler_held else None)

    scaler.unscale_ = _only_where(lambda this, optimizer: outside.due or is_free(this, optimizer), scaler.unscale_)
    scaler.step = stepped
    scaler.update = _only_where(lambda *_, **__: outside.paused or not outside.scaler_held, scaler.update)


# ---- what belongs to a step


def _clipping(outside: Outside, torch: Any) -> None:
    place = torch.nn.utils.clip_grad
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        clipped = _clip(getattr(place, name), outside, torch if name == "clip_grad_norm_" else None)
        for module in (place, torch.nn.utils):
            setattr(module, name, clipped)


def _clip(clip: Callable[..., Any], outside: Outside, torch: Any) -> Callable[..., Any]:
    """Clips the whole gradient only. ``torch``: the norm of what there is so far is returned; else nothing."""

    @functools.wraps(clip)
    def whole(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        parameters = [parameters] if hasattr(parameters, "grad") else list(parameters)
        if outside.paused or outside.due or not outside.optimizers:
            return clip(parameters, *args, **kwargs)
        return _norm(parameters, torch) if torch is not None else None

    return whole


def _averaging(outside: Outside, torch: Any) -> None:
    from torch.optim.swa_utils import AveragedModel

    AveragedModel.update_parameters = _only_where(lambda *_, **__: outside.paused or not outside.pending, AveragedModel.update_parameters)


def _norm(parameters: Any, torch: Any) -> Any:
    """The norm of the gradients that are there."""
    grads = [one.grad for one in parameters if one.grad is not None]
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one.detach()) for one in grads])) if grads else torch.tensor(0.0)


# ---- data loaders


def _loaders(outside: Outside, torch: Any) -> None:
    loader = torch.utils.data.DataLoader
    length = loader.__len__

    @functools.wraps(length)
    def told(this: Any) -> int:
        count = length(this)
        return count if outside.paused or outside.is_another(this) else outside.lengths.told(this, count, sys._getframe(1))

    def subclassed(cls: Any, /, **kwargs: Any) -> None:
        super(loader, cls).__init_subclass__(**kwargs)
        _wrap(cls, "__iter__", lambda begin: _begun(begin, outside))  # one that fetches ahead knows its batches better than what is in it

    loader.__len__ = told
    _wrap(loader, "__iter__", lambda begin: _begun(begin, outside))
    loader.__init_subclass__ = classmethod(subclassed)


def _begun(begin: Callable[..., Any], outside: Outside) -> Callable[..., Any]:
    @functools.wraps(begin)
    def begun(this: Any) -> Any:
        return outside.begun(this, begin(this))

    return begun


def _split(make: Callable[..., Any], outside: Outside, whole: int, part: int, place: str) -> Callable[..., Any]:
    """Has a loader that is made with batches of ``whole`` in that place made with batches of ``part``."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(this: Any, *args: Any, **kwargs: Any) -> None:
        try:
            said = signature.bind(this, *args, **kwargs)
        except TypeError:
            make(this, *args, **kwargs)  # which says what is wrong
            return
        given = said.arguments
        if given.get("batch_size") == whole and is_made_at(place, sys._getframe(1), this):
            given["batch_size"], outside.has_split = part, True
            outside.note(f"the loader's batches of {whole} are split into micro-batches of {part}")
        make(*said.args, **said.kwargs)

    return made
