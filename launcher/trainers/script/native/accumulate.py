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

What can't be exact raises ``NotExact`` in the first two optimizer steps, with the reason: an optimizer that is given a closure (LBFGS),
a loss that is summed instead of averaged, batches that are asked for one by one by a script that counts its steps, gradients thrown away
or changed between two steps, a learning rate set by hand at every batch, trainers that accumulate themselves. Later on such things are
told on stderr, and the run goes on. Batch norm takes its statistics from micro-batches: told, too.

ACCUMULATE_LOSS=mean or sum says what the loss is, where that can't be told from the way it was computed.
ACCUMULATE_SPLIT=64:16 is for a script whose batch stands in its source: a DataLoader that shuffles and is made with batches of 64 is made
with batches of 16.
This file needs nothing but torch, and ``imported.py`` beside it. What it did is told on stderr when the process ends.
"""

from __future__ import annotations

import atexit
import dis
import functools
import inspect
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .imported import after_import

VARIABLE = "ACCUMULATE"
LOSS = "ACCUMULATE_LOSS"
SPLIT = "ACCUMULATE_SPLIT"
STRICT_STEPS = 2
"""Optimizer steps in which whatever can't be exact ends the process; afterwards it is told."""


class NotExact(RuntimeError):
    """The update would not be the large batch's. The message says why, and what would work."""


class Pass:
    """An iterator over one pass of a data loader, which knows how far it is."""

    def __init__(self, outside: Outside, loader: Any, batches: Iterator[Any]) -> None:
        self._outside, self.loader, self._batches = outside, loader, batches
        self.count = outside.length(loader)
        self.position = -1
        self.trained = -1
        """The position of the last batch that a backward pass came of."""
        self.weight = 1.0
        """Samples of this batch, as a part of a whole micro-batch."""
        self.last = self.ended = False
        self._ahead: list[Any] = []
        self._size = _samples(loader)
        self.in_a_loop = True

    @property
    def sizes_unknown(self) -> bool:
        return self._size is None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._batches, name)

    def __next__(self) -> Any:
        if self.position < 0:
            self.in_a_loop = _in_a_loop(sys._getframe(1))
        if self.count is not None and self.trained >= 0 and self.position + 1 >= self._whole():
            for _ in self._batches:  # the large batches' loader drops these, too, and leaves its sampler at its end
                pass
            self.ended = True
            raise StopIteration
        try:
            batch = self._draw()
        except StopIteration:
            self.ended = True
            raise
        self.position += 1
        self.weight = self._part(batch)
        self._outside.drawn(self)
        return batch

    def _draw(self) -> Any:
        if self.count is not None:
            batch = next(self._batches)
            self.last = self.position + 2 >= self._whole()
            return batch
        batch = self._ahead.pop() if self._ahead else next(self._batches)
        try:
            self._ahead.append(next(self._batches))  # a loader without a length: whether this is its last batch shows in the next
        except StopIteration:
            self.last = True
        return batch

    def _whole(self) -> int:
        """Batches of this pass that belong to whole large batches, where the loader drops what doesn't."""
        assert self.count is not None
        return self.count // self._outside.every * self._outside.every if _drops_last(self.loader) else self.count

    def _part(self, batch: Any) -> float:
        if self._size is None or not self.last:
            return 1.0
        size = _leading(batch)
        return size / self._size if size is not None and 0 < size < self._size else 1.0


class Held:
    """What is known of one optimizer."""

    def __init__(self) -> None:
        self.pending = 0
        """Steps held back since the last real one."""
        self.backwards = 0
        """Backward passes since the last call of ``step``."""
        self.marks: list[tuple[Any, int, int]] = []
        self.hyper: Any = None
        self.inside = False
        self.batch = -1
        """Number of the batch after which it stepped last."""


class Outside:
    """The accumulation of one process."""

    def __init__(self, every: int, loss: str = "", split: tuple[int, int] | None = None) -> None:
        """``split``: batch size of the script's own loader, and the micro-batch that it shall have."""
        self.every, self.loss_is, self.split = every, loss, split
        self.paused = False
        """Set while somebody else stands in for training: nothing is held, counted or checked."""
        self.notes: list[str] = []
        self.on_note: list[Callable[[str], None]] = []
        self.steps = self.micro_batches = 0
        self._optimizers: weakref.WeakKeyDictionary[Any, Held] = weakref.WeakKeyDictionary()
        self._deferred: weakref.WeakKeyDictionary[Any, Callable[[], Any]] = weakref.WeakKeyDictionary()
        """Scheduler -> its last step in the middle of a group: done after it, where none came with the group's own step."""
        self._drawn: Pass | None = None
        """Of which a batch was drawn last."""
        self._pass: Pass | None = None
        """Of which a batch was trained last."""
        self._batch = 0
        """Batches that were trained."""
        self._weight = 0.0
        """Micro-batches of this group before the one that is under way, the last of a pass by its samples."""
        self._counted = -1
        """The last batch that was counted as one of its group."""
        self._scaler_held = False
        self._iterated: weakref.WeakSet[Any] = weakref.WeakSet()
        """Loaders of which a pass was begun."""
        self._plain_lengths = 0
        self._batch_norm = False
        self._in_backward = False

    # -- what is told

    def note(self, text: str) -> None:
        if text in self.notes:
            return
        self.notes.append(text)
        if os.environ.get("RANK", "0") == "0":
            print(f"accumulate: {text}", file=sys.stderr, flush=True)
        for listener in self.on_note:
            listener(text)

    def trouble(self, text: str) -> None:
        """Something that can't be exact: the end of it in the first steps, a word later on."""
        if self.steps < STRICT_STEPS:
            self.micro_batches = 0
            raise NotExact(f"accumulation from outside can't be exact here: {text}")
        self.note(f"from here on not the large batch's update: {text}")

    def ended(self) -> None:
        if self.micro_batches:
            self.on_note.clear()
            self.note(f"{self.micro_batches} micro-batches, {self.steps} optimizer steps ({self.every} micro-batches in each)")

    # -- batches

    def length(self, loader: Any) -> int | None:
        """Batches of one pass, or None where nobody knows."""
        self._plain_lengths += 1
        try:
            return len(loader)
        except (TypeError, NotImplementedError):
            return None
        finally:
            self._plain_lengths -= 1

    def told_length(self, loader: Any, count: int, frame: Any) -> int:
        """What a script is told of a loader's length: optimizer steps, for one that shuffles, until its first pass begins."""
        if self._plain_lengths or self.paused or loader in self._iterated or not _shuffles(loader):
            return count
        if "tqdm" in frame.f_code.co_filename or frame.f_code.co_filename == __file__:
            return count
        self.note("until its first pass, the length of the shuffled loader is told in optimizer steps")
        return count // self.every if _drops_last(loader) else -(-count // self.every)

    def drawn(self, one: Pass) -> None:
        """A batch was drawn."""
        self._drawn = one

    @property
    def due(self) -> bool:
        """Whether the batch that is trained completes a group."""
        one = self._pass
        return one is None or one.last or (one.position + 1) % self.every == 0

    def backward_begins(self, roots: Any) -> float:
        """What the gradients of this backward pass are multiplied by."""
        one = self._drawn
        if one is None or (self.steps < STRICT_STEPS and not one.in_a_loop):
            self.trouble(
                "the batches don't come of a loop over a data loader, so the script counts its steps itself and would take "
                f"{self.every} times too few"
            )
            return 1.0 / self.every
        if any(held.pending and _changed(held.marks) for held in self._optimizers.values()):
            self.trouble("gradients are changed or thrown away between two batches by something that can't be seen (a clipping by hand)")
        if one.position != one.trained:
            self._next(one)
            self._say_loss(roots)
            if self.due and not self._summed:
                self._weigh(one)
        return self._scale(one)

    def _next(self, one: Pass) -> None:
        """The first backward pass of a batch begins."""
        left = self._pass
        if one.position > one.trained + 1:
            self.trouble("batches are fetched ahead of their training, or skipped")
        if left is not None and left is not one and not left.ended and not left.last and any(h.pending for h in self._optimizers.values()):
            self.trouble("a pass over the data is left before its end, in the middle of an optimizer step")
        if not any(held.pending for held in self._optimizers.values()):
            deferred, self._deferred = list(self._deferred.values()), weakref.WeakKeyDictionary()
            for step in deferred:
                step()
        one.trained = one.position
        self._pass = one
        self._batch += 1
        self.micro_batches += 1
        if one.sizes_unknown:
            self.note("the loader makes batches of its own sizes: each counts as much as the others")

    def _weigh(self, one: Pass) -> None:
        """Gives the gradients that are there the weight they have in this group, which may be smaller than the others."""
        factor = self.every / (self._weight + one.weight)
        if abs(factor - 1) < 1e-9:
            return
        for optimizer, held in self._optimizers.items():
            for parameter in _parameters(optimizer) if held.pending else ():
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def _scale(self, one: Pass) -> float:
        if self._summed:
            return 1.0
        if self.due:
            return one.weight / (self._weight + one.weight)
        return one.weight / self.every

    def backward_done(self) -> None:
        for optimizer, held in self._optimizers.items():
            held.backwards += 1
            held.marks = [] if self.due else [(p, id(p.grad), p.grad._version) for p in _parameters(optimizer) if p.grad is not None]

    # -- the loss

    @property
    def _summed(self) -> bool:
        return self.loss_is == "sum"

    def _say_loss(self, roots: Any) -> None:
        """Looks at how the loss of the first batches was computed; a sum over the batch can't be averaged by us."""
        if self.loss_is or self.steps >= STRICT_STEPS:
            return
        found = _reductions(roots[0] if isinstance(roots, (list, tuple)) else roots)
        if "sum" in found:
            self.trouble(
                f"the loss is a sum over the batch ({found['sum']}), or averaged by the script in a way that can't be seen: say which with "
                f"{LOSS}=sum or {LOSS}=mean (in a recipe: trainer.args.env.{LOSS})"
            )
        if "unevenly" in found:
            self.note(
                "the loss leaves out targets, or weights them: each micro-batch is averaged by itself, so those with fewer targets count "
                "as much as the others"
            )

    # -- optimizers

    def made(self, optimizer: Any) -> None:
        self._optimizers.setdefault(optimizer, Held())

    def holds(self, optimizer: Any) -> bool:
        """Whether the step that comes is held back."""
        return not self.paused and not self.due and optimizer in self._optimizers

    def step(self, optimizer: Any, really: Callable[[], Any], closure: Any) -> Any:
        held = self._optimizers.get(optimizer)
        if self.paused or held is None or held.inside:
            return really()
        if closure is not None:
            raise NotExact(
                "accumulation from outside can't be exact here: the optimizer is given a closure, which computes the gradients anew in "
                "each step (LBFGS), or belongs to a trainer (Lightning) that accumulates itself: use its own word for it"
            )
        self._check(held, optimizer)
        held.batch, held.backwards = self._batch, 0
        if not self.due:
            self._hold(held, optimizer)
            return None
        held.inside = True
        try:
            return really()
        finally:
            held.inside = False
            self._stepped(held)

    def _check(self, held: Held, optimizer: Any) -> None:
        if not held.backwards:
            self.trouble("a step came without a backward pass before it")
        if held.batch >= 0 and self._batch - held.batch != 1:
            self.trouble(
                "an optimizer doesn't step after every batch: the script accumulates itself, or trains with several optimizers in turn"
            )
        if held.pending and held.hyper != _hyper(optimizer):
            self.trouble("the script sets the learning rate (or another setting of the optimizer) itself at every batch")
        if self.steps == 0 and not held.pending:
            _refuse_trainers(sys._getframe(3))

    def _hold(self, held: Held, optimizer: Any) -> None:
        if self.steps == 0 and not held.pending:
            self.note(
                f"{self.every} micro-batches are in each optimizer step; what the script does at every batch itself it does at each of them"
            )
            if self._batch_norm:
                self.note("batch norm takes its statistics from micro-batches, not from the large batch")
        held.pending += 1
        held.hyper = _hyper(optimizer)
        self._weight_of_batch()

    def _weight_of_batch(self) -> None:
        """Counts the batch under way as one of its group; once, however many optimizers step after it."""
        if self._counted != self._batch and self._pass is not None:
            self._counted = self._batch
            self._weight += self._pass.weight

    def _stepped(self, held: Held) -> None:
        held.pending = 0
        if self._counted != self._batch:
            self._counted = self._batch
            self._weight = 0.0
            self.steps += 1

    def cleared(self, held: Held) -> bool:
        """Whether a ``zero_grad`` may be done: not while micro-batches are held."""
        if self.paused or not held.pending:
            return True
        if held.backwards:
            self.trouble("the script throws gradients away after a backward pass (several losses or models in turn)")
            held.pending, self._weight = 0, 0.0
            return True
        return False

    def owner(self, parameters: Any) -> Held | None:
        """The first optimizer with pending micro-batches that trains one of the parameters."""
        wanted = {id(one) for one in parameters}
        for optimizer, held in self._optimizers.items():
            if held.pending and any(id(one) in wanted for one in _parameters(optimizer)):
                return held
        return None

    def resumes(self, on: bool) -> None:
        """``paused`` from outside, or training for real again."""
        self.paused = on
        for held in self._optimizers.values():
            held.batch, held.marks = -1, []
            held.backwards = 0
        if self._drawn is not None:
            self._drawn.trained = self._drawn.position

    # -- installing

    def install(self) -> None:
        """Patches torch, which has just been imported."""
        import torch

        if self.split is not None:
            _wrap(torch.utils.data.DataLoader, "__init__", self._made_of)
        if self.every == 1:
            return
        self._backward(torch)
        self._optimizer(torch)
        self._scaler(torch)
        self._clipping(torch)
        self._averaging(torch)
        self._loader(torch)

    def install_accelerate(self) -> None:
        """Its loaders fetch a batch ahead, and aren't really DataLoaders: they know better than what is in them which batch is trained."""
        module = sys.modules["accelerate.data_loader"]
        for name in ("DataLoaderShard", "DataLoaderDispatcher"):
            if hasattr(module, name):
                _wrap(getattr(module, name), "__iter__", self._iter_of)

    def _backward(self, torch: Any) -> None:
        backward, outside = torch.autograd.backward, self

        @functools.wraps(backward)
        def scaled(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
            if outside.paused or outside._in_backward:  # within another one (reentrant checkpointing) gradients are weighted already
                backward(tensors, grad_tensors, *args, **kwargs)
                return
            scale = outside.backward_begins(tensors)
            outside._in_backward = True
            try:
                backward(tensors, _weighted(tensors, grad_tensors, scale), *args, **kwargs)
            finally:
                outside._in_backward = False
            outside.backward_done()

        torch.autograd.backward = scaled
        norm = torch.nn.modules.batchnorm._BatchNorm
        made = norm.__init__

        @functools.wraps(made)
        def begun(this: Any, *args: Any, **kwargs: Any) -> None:
            made(this, *args, **kwargs)
            outside._batch_norm = True

        norm.__init__ = begun
        clear = torch.nn.Module.zero_grad

        @functools.wraps(clear)
        def zero_grad(this: Any, *args: Any, **kwargs: Any) -> None:
            held = outside.owner(this.parameters())
            if held is None or outside.cleared(held):
                clear(this, *args, **kwargs)

        torch.nn.Module.zero_grad = zero_grad

    def _optimizer(self, torch: Any) -> None:
        made, outside = torch.optim.Optimizer.__init__, self

        @functools.wraps(made)
        def begun(this: Any, *args: Any, **kwargs: Any) -> None:
            made(this, *args, **kwargs)
            outside.made(this)
            _wrap(type(this), "step", outside._step_of)
            _wrap(type(this), "zero_grad", outside._zero_of)

        torch.optim.Optimizer.__init__ = begun
        schedulers = torch.optim.lr_scheduler
        for kind in (schedulers.LRScheduler, schedulers.ReduceLROnPlateau):
            self._scheduler(kind)

    def _scheduler(self, kind: Any) -> None:
        begun, outside = kind.__init__, self

        @functools.wraps(begun)
        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            begun(this, *args, **kwargs)
            _wrap(type(this), "step", outside._scheduler_of)

        kind.__init__ = made

    def _step_of(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def held_back(this: Any, *args: Any, **kwargs: Any) -> Any:
            closure = args[0] if args and callable(args[0]) else kwargs.get("closure")
            return self.step(this, lambda: step(this, *args, **kwargs), closure)

        return held_back

    def _zero_of(self, zero: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(zero)
        def zero_grad(this: Any, *args: Any, **kwargs: Any) -> Any:
            held = self._optimizers.get(this)
            return zero(this, *args, **kwargs) if held is None or self.cleared(held) else None

        return zero_grad

    def _scheduler_of(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def once(this: Any, *args: Any, **kwargs: Any) -> Any:
            held = self._optimizers.get(_bare(getattr(this, "optimizer", None)))
            if not self.paused and held is not None and held.pending:
                self._deferred[this] = lambda: step(this, *args, **kwargs)
                return None
            self._deferred.pop(this, None)
            return step(this, *args, **kwargs)

        return once

    def _scaler(self, torch: Any) -> None:
        scaler, outside = torch.amp.GradScaler, self
        unscale, step, update = scaler.unscale_, scaler.step, scaler.update

        @functools.wraps(unscale)
        def unscale_(this: Any, optimizer: Any) -> None:
            if not this.is_enabled() or not outside.holds(_bare(optimizer)):
                unscale(this, optimizer)

        @functools.wraps(step)
        def stepped(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            held = outside._optimizers.get(_bare(optimizer))
            if not this.is_enabled() or outside.paused or held is None:
                return step(this, optimizer, *args, **kwargs)
            outside._scaler_held = not outside.due
            if not outside.due:
                return outside.step(_bare(optimizer), lambda: None, kwargs.get("closure"))
            outside._check(held, _bare(optimizer))
            held.batch, held.backwards, held.inside = outside._batch, 0, True
            try:
                return step(this, optimizer, *args, **kwargs)
            finally:  # a step that was left out for an overflow is one that the large batch leaves out
                held.inside = False
                outside._stepped(held)

        @functools.wraps(update)
        def updated(this: Any, *args: Any, **kwargs: Any) -> None:
            if outside.paused or not outside._scaler_held:
                update(this, *args, **kwargs)

        scaler.unscale_, scaler.step, scaler.update = unscale_, stepped, updated

    def _clipping(self, torch: Any) -> None:
        place = torch.nn.utils.clip_grad
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            clip = getattr(place, name)
            clipped = self._clip_of(clip, norm=name == "clip_grad_norm_")
            for module in (place, torch.nn.utils):
                setattr(module, name, clipped)

    def _clip_of(self, clip: Callable[..., Any], *, norm: bool) -> Callable[..., Any]:
        @functools.wraps(clip)
        def whole(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(parameters, (list, tuple)) and not hasattr(parameters, "grad"):
                parameters = list(parameters)
            if self.paused or self.due or not self._optimizers:
                return clip(parameters, *args, **kwargs)
            return _norm(parameters) if norm else None  # what there is so far; the whole gradient is clipped

        return whole

    def _averaging(self, torch: Any) -> None:
        from torch.optim.swa_utils import AveragedModel

        update, outside = AveragedModel.update_parameters, self

        @functools.wraps(update)
        def updated(this: Any, *args: Any, **kwargs: Any) -> None:
            if outside.paused or not any(held.pending for held in outside._optimizers.values()):
                update(this, *args, **kwargs)

        AveragedModel.update_parameters = updated

    def _loader(self, torch: Any) -> None:
        loader, outside = torch.utils.data.DataLoader, self
        length = loader.__len__

        @functools.wraps(length)
        def told(this: Any) -> int:
            return outside.told_length(this, length(this), sys._getframe(1))

        loader.__len__ = told
        _wrap(loader, "__iter__", self._iter_of)

        def subclassed(cls: Any, /, **kwargs: Any) -> None:
            super(loader, cls).__init_subclass__(**kwargs)
            _wrap(cls, "__iter__", outside._iter_of)  # one that fetches ahead (accelerate's) knows its batches better than what is in it

        loader.__init_subclass__ = classmethod(subclassed)

    def _made_of(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """A loader that shuffles and is made with the batch that is split is made with micro-batches."""
        signature = inspect.signature(make)

        @functools.wraps(make)
        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            assert self.split is not None
            whole, part = self.split
            try:
                said = signature.bind(this, *args, **kwargs)
            except TypeError:
                make(this, *args, **kwargs)  # which says what is wrong
                return
            given = said.arguments
            if given.get("batch_size") == whole and (given.get("shuffle") or _is_random(given.get("sampler"))):
                given["batch_size"] = part
                self.note(f"the loader's batches of {whole} are split into micro-batches of {part}")
            make(*said.args, **said.kwargs)

        return made

    def _iter_of(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(begin)
        def begun(this: Any) -> Any:
            batches = begin(this)
            self._iterated.add(this)
            return batches if self.paused or isinstance(batches, Pass) else Pass(self, this, batches)

        return begun


# ----------------------------------------------------------------------------------------------------------------------
# Small things


def _wrap(kind: type, name: str, made: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts ``made`` around a class's method, its own or one that it inherits unwrapped."""
    method = getattr(kind, name)
    if not getattr(method, "_held_back", False):
        wrapped = made(method)
        wrapped._held_back = True  # type: ignore[attr-defined]
        setattr(kind, name, wrapped)


def _bare(optimizer: Any) -> Any:
    """The optimizer inside a wrapper (accelerate's)."""
    inner = getattr(optimizer, "optimizer", None)
    return inner if inner is not None and hasattr(inner, "param_groups") else optimizer


def _parameters(optimizer: Any) -> Iterator[Any]:
    return (one for group in optimizer.param_groups for one in group["params"])


def _hyper(optimizer: Any) -> Any:
    return [{key: str(value) for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def _changed(marks: Sequence[tuple[Any, int, int]]) -> bool:
    return any(one.grad is None or id(one.grad) != which or one.grad._version != version for one, which, version in marks)


def _weighted(tensors: Any, given: Any, scale: float) -> Any:
    """Gradients of the roots of a backward pass, so that all that comes of it is multiplied by ``scale``."""
    import torch

    roots = tuple(tensors) if isinstance(tensors, (list, tuple)) else (tensors,)
    given = (None,) * len(roots) if given is None else tuple(given) if isinstance(given, (list, tuple)) else (given,)
    if scale == 1.0 or any(one is None and root.numel() != 1 for one, root in zip(given, roots, strict=False)):
        return None if all(one is None for one in given) else given  # torch says what is wrong with a root that is no number
    return tuple(torch.full_like(root, scale) if one is None else one * scale for one, root in zip(given, roots, strict=True))


def _norm(parameters: Any) -> Any:
    import torch

    grads = [one.grad for one in (parameters if isinstance(parameters, (list, tuple)) else (parameters,)) if one.grad is not None]
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one.detach()) for one in grads])) if grads else torch.tensor(0.0)


def _leading(batch: Any) -> int | None:
    """The first dimension of the first tensor in a batch."""
    if hasattr(batch, "shape") and getattr(batch, "ndim", False):
        return int(batch.shape[0])
    inside: Any = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, (list, tuple)) else ()
    return next((size for one in inside if (size := _leading(one)) is not None), None)


def _samples(loader: Any) -> int | None:
    """Samples of a whole batch, where the loader or its batch sampler says so."""
    said = (getattr(loader, "batch_size", None), getattr(getattr(loader, "batch_sampler", None), "batch_size", None))
    return next((size for size in said if isinstance(size, int)), None)


def _drops_last(loader: Any) -> bool:
    return bool(getattr(loader, "drop_last", False) or getattr(getattr(loader, "batch_sampler", None), "drop_last", False))


def _shuffles(loader: Any) -> bool:
    return _is_random(getattr(loader, "sampler", None))


def _is_random(sampler: Any) -> bool:
    return type(sampler).__name__.endswith("RandomSampler") or bool(getattr(sampler, "shuffle", False))


_LIBRARIES = ("site-packages", "dist-packages", os.path.dirname(os.__file__))


def _in_a_loop(frame: Any) -> bool:
    """Whether a ``for`` loop asks for the batches, or a library that knows how a pass ends; through generators, whoever asks them."""
    while frame is not None:
        code = frame.f_code
        looped = 0 <= frame.f_lasti < len(code.co_code) and dis.opname[code.co_code[frame.f_lasti]] == "FOR_ITER"
        if not looped and not (any(part in code.co_filename for part in _LIBRARIES) and "StopIteration" in code.co_names):
            return False
        if not code.co_flags & inspect.CO_GENERATOR:
            return True
        frame = frame.f_back  # a generator that passes the batches on
    return True


def _refuse_trainers(frame: Any) -> None:
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name in ("transformers.trainer", "lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"):
            raise NotExact(
                f"accumulation from outside can't be exact here: {name.split('.')[0]} counts the steps and accumulates by itself"
            )
        frame = frame.f_back


_THROUGH = ("Add", "Sub", "Rsub", "Mul", "Div", "Neg", "ToCopy", "Squeeze", "View", "Clone", "Alias")
"""Nodes between the root and the losses: arithmetic on single numbers."""


def _reductions(root: Any) -> dict[str, str]:
    """How the loss was made of its batch, as far as its graph tells: ``sum`` and by what; ``unevenly`` where targets don't count alike."""
    found: dict[str, str] = {}
    waiting: list[tuple[Any, bool]] = [(getattr(root, "grad_fn", None), False)]
    seen = 0
    while waiting and seen < 200:
        node, divided = waiting.pop()
        seen += 1
        name = type(node).__name__.removesuffix("0").removesuffix("1").removesuffix("Backward")
        reduction = getattr(node, "_saved_reduction", None)
        if name == "Sum" or reduction == 2:
            if not divided:
                found["sum"] = f"{name}, not divided by anything"
        elif reduction is not None:
            if _uneven(node):
                found["unevenly"] = name
        elif name.startswith(_THROUGH):
            waiting += [(one, divided or name == "Div") for one, _ in node.next_functions if one is not None]
    return found


def _uneven(node: Any) -> bool:
    weight, target = getattr(node, "_saved_total_weight", None), getattr(node, "_saved_target", None)
    return weight is not None and target is not None and weight.numel() == 1 and abs(float(weight) - target.numel()) > 0.5


# ----------------------------------------------------------------------------------------------------------------------
# As a process begins


OUTSIDE: Outside | None = None
"""Of this process, where there is any; for who watches."""


def begin() -> None:
    """Called by the sitecustomize that has loaded this file, before the program begins."""
    global OUTSIDE
    every = int(os.environ.get(VARIABLE) or 1)
    whole, _, part = os.environ.get(SPLIT, "").partition(":")
    if every > 1 or part:
        OUTSIDE = Outside(every, os.environ.get(LOSS, ""), (int(whole), int(part)) if part else None)
        acts = {"torch": OUTSIDE.install, **({"accelerate.data_loader": OUTSIDE.install_accelerate} if every > 1 else {})}
        after_import(acts)
        atexit.register(OUTSIDE.ended)
