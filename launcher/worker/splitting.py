"""Takes a micro-batch for which memory ran out again, in halves, in the running process: no step is lost and nothing is restarted.

What the failed pass had changed is put back first: random states, statistics of batch norms. Gradients are neither copied nor lost: the
weights that the failed backward pass had reached (their gradient is another tensor, or another version of it) have the whole
micro-batch's already, so the halves give them none. The optimizer has not stepped. Parts smaller than a row there are not: it is tried
once more with the memory that the process holds for threads to come (``spare``), and then the error goes its way, and the launcher
restarts the run as it always did.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import itertools
import os
import sys
import traceback
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ..shared.memory_failures import maybe_memory, memory_failure
from ..shared.orders import TAKEN_AGAIN
from . import random_states, spare


def of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out."""
    return _surely_of_memory(error) or (isinstance(error, RuntimeError) and bool(maybe_memory(f"{type(error).__name__}: {error}")))


def _surely_of_memory(error: BaseException) -> bool:
    """Whether its words mean nothing else."""
    return memory_failure(f"{type(error).__name__}: {error}", types=[type(error).__name__]) is not None


def alone() -> bool:
    """Whether this process is the only one of its training: ranks that have failed at different places can't go on together."""
    return int(os.environ.get("WORLD_SIZE", "1") or 1) == 1


_others: list[str] = []


def take_care(who: str) -> None:
    """Says that a trainer's own steps are taken in parts here, so that nobody else does that with its model."""
    _others.append(who)


def taken_care() -> bool:
    return bool(_others)


class _Backward:
    """Counts backward passes that begin within another; reentrant checkpointing makes one for each part of a model. A weight that several
    parts share gets its gradient in several pieces, and one that a failed pass has reached may have some of them alone."""

    def __init__(self) -> None:
        self._depth = self.within = 0

    def watch(self) -> None:
        import torch

        plain = torch.autograd.backward
        if hasattr(plain, "counts_within"):
            return

        @functools.wraps(plain)
        def backward(*args: Any, **named: Any) -> None:
            self.within += self._depth > 0
            self._depth += 1
            try:
                plain(*args, **named)
            finally:
                self._depth -= 1

        backward.counts_within = True  # type: ignore[attr-defined]
        torch.autograd.backward = backward

    @contextlib.contextmanager
    def outermost(self) -> Iterator[None]:
        """While open, a backward pass is taken for one that is in no other."""
        depth, self._depth = self._depth, 0
        try:
            yield
        finally:
            self._depth = depth


backward = _Backward()


class CannotSplit(RuntimeError):
    """It can't be said what the parts come to, so the whole is not taken in parts. The message says why."""


class Before:
    """What a pass over a micro-batch changes, as it was before it."""

    def __init__(self, weights: Sequence[Any] = (), statistics: Sequence[Any] = (), others: Mapping[str, Any] | None = None) -> None:
        """``others``: buffers by name of which no copy is kept; a pass that changes one can't be undone."""
        import torch

        self._gradients = [(weight, weight.grad, -1 if weight.grad is None else weight.grad._version) for weight in weights]
        self._random = random_states.states()
        self._of_card = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
        self._statistics = list(zip(statistics, _copies(statistics), strict=True))
        self._others = [(name, buffer, buffer._version) for name, buffer in (others or {}).items()]
        self._reached: frozenset[Any] | None = None
        self._within = backward.within

    def reached(self) -> frozenset[Any]:
        """The weights whose gradient had grown since when this was asked first: by the pass that failed. Raises CannotSplit where one may
        have a part of its gradient alone."""
        if self._reached is None:
            self._reached = frozenset(
                weight for weight, gradient, version in self._gradients
                if weight.grad is not gradient or (gradient is not None and gradient._version != version)
            )  # fmt: skip
        if self._reached and backward.within != self._within:
            raise CannotSplit("it failed in a backward pass with others in it (reentrant checkpointing; use_reentrant=False has none)")
        return self._reached

    def unkept(self) -> list[str]:
        """Buffers that have been changed since and of which no copy is kept."""
        return [name for name, buffer, version in self._others if buffer._version != version]

    def put_back(self) -> None:
        """Gradients stay as they are. Raises CannotSplit where something can't be put back."""
        import torch

        if changed := self.unkept():
            raise CannotSplit(f"each pass changes {changed[0]}")
        random_states.back_to(self._random)
        if self._of_card is not None:
            torch.cuda.set_rng_state(self._of_card)
        with torch.no_grad():
            for buffer, value in self._statistics:
                buffer.copy_(value)


def statistics(model: Any) -> Iterator[Any]:
    """The buffers of a model's batch norms that a training pass changes."""
    from torch.nn.modules.batchnorm import _NormBase

    for module in model.modules():
        if isinstance(module, _NormBase) and module.track_running_stats:
            yield from module.buffers(recurse=False)


def _copies(buffers: Sequence[Any]) -> list[Any]:
    """On a card in one kernel for each type: a small model has hundreds of them, and each copy would be a launch."""
    import torch

    if not buffers or not buffers[0].is_cuda or len({buffer.device for buffer in buffers}) > 1:
        return [buffer.clone() for buffer in buffers]
    copies: dict[int, Any] = {}
    for dtype in {buffer.dtype for buffer in buffers}:
        alike = [at for at, buffer in enumerate(buffers) if buffer.dtype == dtype]
        copies |= zip(alike, torch._foreach_mul([buffers[at] for at in alike], 1), strict=True)
    return [copies[at] for at in range(len(buffers))]


@contextlib.contextmanager
def _leaving_out(weights: Collection[Any]) -> Iterator[None]:
    """While open, backward passes change no gradient of these weights."""
    gradients = [(weight, weight.grad) for weight in weights]

    def drop(weight: Any) -> None:
        weight.grad = None

    for weight in weights:
        weight.grad = None
    hooks = [weight.register_post_accumulate_grad_hook(drop) for weight in weights]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for weight, gradient in gradients:
            weight.grad = gradient


Rows = Callable[[int, int], Any]
"""A pass over some rows of a micro-batch, from the first to before the last."""


class Splitting:
    """One training's or evaluation's passes, whole or in parts; it remembers how many rows at once have found room."""

    def __init__(self, what: str, *, model: Any = None, into: int = 2) -> None:
        """``what`` begins a sentence: "a training step". ``model``: the one that is trained; None: nothing is. ``into``: as many parts."""
        self._what, self._into = what, into
        self._model = weakref.proxy(model) if model is not None else None
        self._weights = list(model.parameters()) if model is not None else []
        if model is not None:
            backward.watch()
        self._statistics = list(statistics(model)) if model is not None else []
        self._drain = _Drain(self._weights[0].device) if self._weights else None
        kept = set(map(id, self._statistics))
        named = model.named_buffers() if model is not None else ()
        self._others = {name: buffer for name, buffer in named if id(buffer) not in kept and not buffer.is_inference()}
        self._thorough = True
        self.most: int | None = None
        """Rows that are taken at once, at most; None: as many as come."""

    def before(self) -> Before:
        return Before(self._weights, self._statistics, self._others)

    def take(self, rows: int, one: Rows, whole: Callable[[], Any], *, where: str = "") -> list[Any]:
        """What ``whole`` returns, or, where that runs out of memory, what ``one`` returns for each part, in order.

        Raises the error of the pass where it is none of memory, where even one row finds no room, or where ``one`` raises CannotSplit.
        """
        with self._telling(rows, where):
            if self.fits(rows):
                return self._try(0, rows, lambda first, last: whole() if last - first == rows else one(first, last), frozenset())
            return self._in_parts(rows, one, frozenset())

    def again(self, rows: int, one: Rows, failed: BaseException, before: Before, *, where: str = "") -> list[Any]:
        """As ``take``, after a pass over all the rows has failed elsewhere. Nothing of it may be held any more."""
        with self._telling(rows, where), self.or_the_error(failed):
            done = self._undone(before)
            if self.fits(rows):
                return self._in_smaller(0, rows, one, done)
            self.most = max(1, (self.most or rows) // self._into)
            return self._in_parts(rows, one, done)

    def fits(self, rows: int) -> bool:
        """Whether so many rows may find room at once."""
        return self.most is None or rows <= self.most

    def _in_parts(self, rows: int, one: Rows, done: frozenset[Any]) -> list[Any]:
        parts = -(-rows // (self.most or rows))
        cuts = [rows * part // parts for part in range(parts + 1)]
        return [found for cut, to in itertools.pairwise(cuts) for found in self._try(cut, to, one, done)]

    def _try(self, first: int, last: int, one: Rows, done: frozenset[Any]) -> list[Any]:
        """``done``: the weights that have these rows' gradients already."""
        before = self.before()
        try:
            with _leaving_out(done):
                return [one(first, last)]
        except BaseException as error:
            if not of_memory(error):
                raise
            traceback.clear_frames(error.__traceback__)
            if last - first < 2 and not spare.hand_back():
                raise
            failed = error.with_traceback(None)
        with self.or_the_error(failed):
            return self._in_smaller(first, last, one, done | self._undone(before))

    def _undone(self, before: Before) -> frozenset[Any]:
        """Puts back what a failed pass has changed, of which nothing may be held any more; returns the weights that it reached.

        Raises CannotSplit where it can't be.
        """
        if self._model is not None and [*map(id, self._model.parameters())] != [*map(id, self._weights)]:
            raise CannotSplit("the model has got other weights since its training began")
        reached = before.reached()
        before.put_back()
        if self._drain is not None:
            self._drain()
        give_back(young=not self._thorough)
        self._thorough = False
        return reached

    def _in_smaller(self, first: int, last: int, one: Rows, done: frozenset[Any]) -> list[Any]:
        size, before = -(-(last - first) // self._into), Before(others=self._others)
        self.most = min(self.most or last - first, size)
        found = [part for cut in range(first, last, size) for part in self._try(cut, min(cut + size, last), one, done)]
        if changed := before.unkept():
            raise CannotSplit(f"each pass changes {changed[0]}, and parts are more passes")
        return found

    @contextlib.contextmanager
    def or_the_error(self, failed: BaseException) -> Iterator[None]:
        """Raises the error of the pass where it can't be taken in parts: the run is restarted, and no wrong step is made."""
        try:
            yield
        except CannotSplit as unknown:
            print(f"\nautofit: {self._what} found no room and can't be taken in parts: {unknown}", file=sys.stderr, flush=True)
            traceback.clear_frames(unknown.__traceback__)
            raise failed from unknown
        except Exception as error:  # what could mean other things, too, is not taken for memory once that has been let go
            if error is failed or not of_memory(error) or _surely_of_memory(error) or not _surely_of_memory(failed):
                raise
            traceback.clear_frames(error.__traceback__)
            raise failed from None

    @contextlib.contextmanager
    def _telling(self, rows: int, where: str) -> Iterator[None]:
        """Says it where rows had to be taken again, once they have found room. What comes beside them (a save, results that are kept) gets
        the stacks that stand ready for threads to come."""
        most, self._thorough = self.most, True
        yield
        if self.most != most:
            spare.hand_back()
            once = f"{self.most} at once" if self.most != 1 else "one by one"
            more = "; batch norm sees a part's rows" if self._statistics else ""
            told = (
                f"{TAKEN_AGAIN} {self._what} found no room{where}; its {rows} rows were taken again, {once}, and so are all to come{more}"
            )
            print(f"\n{told}", file=sys.stderr, flush=True)


class _Drain:
    """Empties the queue of PyTorch's autograd engine, which after a failed pass keeps the branches that it had not come to, and all that
    they hold, until a pass with older nodes comes by. This one is older than any that is made after it."""

    def __init__(self, device: Any) -> None:
        import torch

        with torch.enable_grad():
            self._leaf = torch.ones(1, device=device, requires_grad=True)
            self._root = self._leaf * 1

    def __call__(self) -> None:
        import torch

        torch.autograd.grad(self._root, self._leaf, torch.ones_like(self._leaf), retain_graph=True)


def give_back(*, young: bool = False) -> None:
    """What the failed pass held goes back to the allocator, and from there to the card, or to the kernel.

    ``young``: of what is held by cycles only what a pass has just made is looked for; all of it takes 0.3 s where transformers is loaded.
    """
    import torch

    gc.collect(1 if young else 2)
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def rows_of(inputs: Any) -> int:
    """Rows of a batch: the first dimension that all its tensors have; 0 where it can't be taken apart."""
    import torch

    if not hasattr(inputs, "items"):
        return 0
    sizes = {value.shape[0] for value in inputs.values() if isinstance(value, torch.Tensor) and value.dim()}
    return int(sizes.pop()) if len(sizes) == 1 else 0


def some_rows(inputs: Any, first: int, last: int) -> Any:
    """The batch with these rows alone; what has no rows stays as it is."""
    import torch

    rows = rows_of(inputs)

    def of(value: Any) -> Any:
        if (isinstance(value, torch.Tensor) and value.dim()) or (isinstance(value, list | tuple) and len(value) == rows):
            return value[first:last]
        return value

    return type(inputs)({name: of(value) for name, value in inputs.items()})


IGNORED = -100
"""Of labels: PyTorch's own."""


def joined(sizes: Sequence[int], values: Sequence[Any], shares: Sequence[float] | None = None) -> Any:
    """Outputs of parts of so many rows as one: tensors with a row for each of theirs, in tuples, lists and dicts.

    ``shares``: what a part's single numbers count for in the whole's. Then, what can't be put together is gone, and who asks for it hears
    of the failure. Raises CannotSplit for anything else.
    """
    import torch

    def of(found: Sequence[Any]) -> Any:
        return joined(sizes, found, shares)

    first = values[0]
    if isinstance(first, torch.Tensor):
        alike = len({value.shape[1:] for value in values}) == 1
        if first.dim() and alike and [len(value) for value in values] == list(sizes):
            return torch.cat(values)
        if first.dim() or shares is None or not first.is_floating_point():
            raise CannotSplit("what the model gives has no row for each of its batch")
        return sum(value * share for share, value in zip(shares, values, strict=True))
    if isinstance(first, Mapping):
        return like(first, {name: of([value[name] for value in values]) for name in first})
    if isinstance(first, list | tuple):
        return like(first, [of([value[at] for value in values]) for at in range(len(first))])
    if shares is not None and not (first is None or isinstance(first, str | int | float)):
        return _Gone(type(first).__name__)
    if any(value != first for value in values):
        raise CannotSplit(f"what the model gives has {type(first).__name__} in it, which differ")
    return first


class _Gone:
    """What can't be put together, in the place of a whole pass's."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        raise MemoryError(f"a pass found no room, and of its parts there is no {self._kind}")

    def __len__(self) -> int:
        return int(self.length)

    def __getitem__(self, at: Any) -> Any:
        return self.item

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def like(first: Any, values: Any) -> Any:
    """A dict, list or tuple of the same kind with other values."""
    spread: Any = type(first)
    if hasattr(first, "to_tuple"):  # ModelOutput of transformers
        return spread(**values)
    return spread(*values) if hasattr(first, "_fields") else spread(values)
