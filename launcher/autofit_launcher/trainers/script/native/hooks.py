"""Patches what a script calls so that its steps are held back: backward passes, optimizers, loaders. Beside ``accumulate``."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from .backward import norm, weighted
from .loaders import is_made_at
from .steps import Outside


def install(outside: Outside, torch: Any) -> None:
    """Patches torch, which has just been imported."""
    if outside.split is not None:
        _wrap(torch.utils.data.DataLoader, "__init__", lambda make: _split(make, outside, *outside.split))  # type: ignore[misc]
    if outside.every == 1:
        if outside.split is not None:
            _split_at_all(outside, torch)
        return
    for patch in (_backward, _zero_grad, _optimizers, _schedulers, _scaler, _clipping, _averaging, _loaders):
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


def _after(method: Callable[..., Any], act: Callable[[Any], None]) -> Callable[..., Any]:
    """The method, and then ``act`` on whose method it is."""

    @functools.wraps(method)
    def done(this: Any, *args: Any, **kwargs: Any) -> None:
        method(this, *args, **kwargs)
        act(this)

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
        if outside.paused or outside.in_backward:  # within another one (reentrant checkpointing) gradients are weighted already
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


def _split_at_all(outside: Outside, torch: Any) -> None:
    """Looks at what is trained on before each backward pass: if a trainer accumulates, nothing else does."""
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def looked(*args: Any, **kwargs: Any) -> None:
        outside.refuse_unsplit(None)
        backward(*args, **kwargs)

    torch.autograd.backward = looked


def _zero_grad(outside: Outside, torch: Any) -> None:
    clear = torch.nn.Module.zero_grad

    @functools.wraps(clear)
    def zero_grad(this: Any, *args: Any, **kwargs: Any) -> None:
        held = outside.owner(this.parameters())
        if held is None or outside.cleared(held):
            clear(this, *args, **kwargs)

    torch.nn.Module.zero_grad = zero_grad


# ---- what steps


def _optimizers(outside: Outside, torch: Any) -> None:
    def made(optimizer: Any) -> None:
        outside.made(optimizer)
        _wrap(type(optimizer), "step", lambda step: _step(step, outside))
        _wrap(type(optimizer), "zero_grad", lambda zero: _cleared(zero, outside))

    torch.optim.Optimizer.__init__ = _after(torch.optim.Optimizer.__init__, made)


def _step(step: Callable[..., Any], outside: Outside) -> Callable[..., Any]:
    @functools.wraps(step)
    def held_back(this: Any, *args: Any, **kwargs: Any) -> Any:
        closure = args[0] if args and callable(args[0]) else kwargs.get("closure")
        return outside.step(this, lambda: step(this, *args, **kwargs), closure)

    return held_back


def _cleared(zero: Callable[..., Any], outside: Outside) -> Callable[..., Any]:
    @functools.wraps(zero)
    def zero_grad(this: Any, *args: Any, **kwargs: Any) -> Any:
        held = outside.optimizers.get(this)
        return zero(this, *args, **kwargs) if held is None or outside.cleared(held) else None

    return zero_grad


def _schedulers(outside: Outside, torch: Any) -> None:
    schedulers = torch.optim.lr_scheduler
    for kind in (schedulers.LRScheduler, schedulers.ReduceLROnPlateau):
        kind.__init__ = _after(kind.__init__, lambda this: _wrap(type(this), "step", lambda step: _with_the_optimizer(step, outside)))


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
    unscale, step, update = scaler.unscale_, scaler.step, scaler.update

    @functools.wraps(unscale)
    def unscale_(this: Any, optimizer: Any) -> None:
        if not this.is_enabled() or not outside.holds(_bare(optimizer)):
            unscale(this, optimizer)

    @functools.wraps(step)
    def stepped(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        really = functools.partial(step, this, optimizer, *args, **kwargs)
        if not this.is_enabled() or outside.paused or _bare(optimizer) not in outside.optimizers:
            return really()
        return outside.step_by_scaler(_bare(optimizer), really, kwargs.get("closure"))

    @functools.wraps(update)
    def updated(this: Any, *args: Any, **kwargs: Any) -> None:
        if outside.paused or not outside.scaler_held:
            update(this, *args, **kwargs)

    scaler.unscale_, scaler.step, scaler.update = unscale_, stepped, updated


# ---- what belongs to a step


def _clipping(outside: Outside, torch: Any) -> None:
    place = torch.nn.utils.clip_grad
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        clipped = _clip(getattr(place, name), outside, tells_norm=name == "clip_grad_norm_")
        for module in (place, torch.nn.utils):
            setattr(module, name, clipped)


def _clip(clip: Callable[..., Any], outside: Outside, *, tells_norm: bool) -> Callable[..., Any]:
    @functools.wraps(clip)
    def whole(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, (list, tuple)) and not hasattr(parameters, "grad"):
            parameters = list(parameters)
        if outside.paused or outside.due or not outside.optimizers:
            return clip(parameters, *args, **kwargs)
        return norm(parameters) if tells_norm else None  # what there is so far; the whole gradient is clipped

    return whole


def _averaging(outside: Outside, torch: Any) -> None:
    from torch.optim.swa_utils import AveragedModel

    update = AveragedModel.update_parameters

    @functools.wraps(update)
    def updated(this: Any, *args: Any, **kwargs: Any) -> None:
        if outside.paused or not outside.pending:
            update(this, *args, **kwargs)

    AveragedModel.update_parameters = updated


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
