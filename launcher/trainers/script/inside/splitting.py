"""A late out-of-memory of a script's own loop costs no step where its model's forward pass finds no room: the pass is made again in parts.

Loaded into full runs. To the script's loop nothing is other than before: what the parts give is put together, and each part is checkpointed
(``torch.utils.checkpoint``), so that it is computed again when the backward pass comes to it, and no more than one part's activations
are there at once. Loss and backward pass are the script's, whatever they are and wherever they stand. That parts give what the whole
gives is seen first, on rows that find room; a model that mixes rows, or keeps something of a pass beside what it returns, is not
taken in parts. What fails in a backward pass: ``replay``.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ....worker import saving, splitting
from ....worker.after_import import after_import
from ....worker.splitting import Before, CannotSplit, Splitting
from . import replay
from .calls import Whole, is_traced, no_other_error, rows_of, same, tensors_of

OF_CPU = 4
"""Into as many parts rows are taken on a CPU: oneDNN keeps machine code for each size of a batch, and gives none back."""
_passes: weakref.WeakKeyDictionary[Any, _Passes] = weakref.WeakKeyDictionary()


def install() -> None:
    """In this process, as soon as optimizers are there: the first step of each tells which model is trained."""
    saving.install()
    if splitting.alone():
        after_import({"torch.optim.optimizer": lambda module: module.register_optimizer_step_pre_hook(_Models().step_comes)})


class _Models:
    """Those that a script trains, found by their optimizers' weights."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def step_comes(self, optimizer: Any, *_: Any) -> None:
        if optimizer in self._known or splitting.taken_care():
            return
        self._known.add(optimizer)
        held = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        for model in _roots(held):
            if _can_be_called_in_parts(model):
                passes = _Passes(model)
                for module in _all_of_it(model, held):
                    _passes[module] = passes
                    _watch(type(module))
                replay.watch(passes, optimizer)


def _roots(held: set[int]) -> list[Any]:
    """The modules with some of these weights that are part of no other such module."""
    import torch

    found = []
    for one in gc.get_objects():
        with contextlib.suppress(AttributeError):  # one that is just being made
            if issubclass(type(one), torch.nn.Module) and held & set(map(id, one.parameters())):
                found.append(one)
    within = {id(part) for one in found for part in one.modules() if part is not one}
    return [one for one in found if id(one) not in within]


def _all_of_it(model: Any, held: set[int]) -> list[Any]:
    """The model, and the modules in it that have all of its trained weights: one of them is what the loop calls (Lightning)."""
    own = held & set(map(id, model.parameters()))
    return [part for part in model.modules() if own <= set(map(id, part.parameters()))]


def _can_be_called_in_parts(model: Any) -> bool:
    """Compiled and scripted models are left alone, and those with hooks, which would see parts. Those that transformers hangs on its
    models gather what one pass gives."""
    import torch

    hooks = [
        hook for part in model.modules() for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        for hook in getattr(part, name).values()
    ]  # fmt: skip
    return all(getattr(hook, "__module__", "").startswith("transformers.") for hook in hooks) and not any(
        isinstance(part, torch.jit.ScriptModule) or type(part).__name__ in _WRAPPERS or part._compiled_call_impl is not None
        for part in model.modules()
    )  # fmt: skip


_WRAPPERS = ("OptimizedModule", "DataParallel", "DistributedDataParallel", "DeepSpeedEngine")


def _watch(kind: Any) -> None:
    plain = kind.__call__
    if hasattr(plain, "in_parts"):
        return

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        passes = _passes.get(self)
        return plain(self, *args, **kwargs) if passes is None else passes.made(functools.partial(plain, self), args, kwargs)

    call.in_parts = True  # type: ignore[attr-defined]
    kind.__call__ = call


class _Passes:
    """The forward passes of one model."""

    def __init__(self, model: Any) -> None:
        self._model = weakref.proxy(model)
        self.weights = list(model.parameters())
        self._weights_of: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        of_cpu = self.weights[0].device.type == "cpu"
        self.training = Splitting("a training pass", model=model, into=OF_CPU if of_cpu else 2)
        self._predicting = Splitting("a pass that predicts")
        self._statistics = list(splitting.statistics(model))
        self._possible: dict[bool, list[_Share]] = {}
        """What a loss of some rows may count for, with gradients and without; empty: nothing had to be taken in parts yet."""
        self._room = 0
        """Rows that were seen to find room for their backward pass, too."""
        self._within = False
        self.most_kept = max(replay.LEAST_KEPT, int(sum(weight.nbytes for weight in self.weights) * replay.SHARE_KEPT))
        self.why_not, self.adds_up = "", False
        """Why a backward pass of it could not be made again; whether gradients of its rows were seen to add up."""

    def made(self, plain: functools.partial[Any], args: Any, kwargs: Any) -> Any:
        """What ``plain`` returns for these."""
        import torch

        trains, rows = torch.is_grad_enabled(), rows_of((args, kwargs))
        if self._within or rows < 2 or (self._model.training and not trains) or is_traced():
            return plain(*args, **kwargs)
        one = self.whole(plain, args, kwargs)
        took, part = (self.training, self._checkpointed) if trains else (self._predicting, Whole.part)

        def of(first: int, last: int) -> tuple[int, Any, float]:
            with self.taking_a_part():
                share = self.share(trains, one, first, last)
                return last - first, part(one, first, last), share

        found = took.take(rows, of, lambda: (rows, one.part(0, rows), 1.0))
        made = found[0][1] if len(found) == 1 else splitting.joined(*zip(*found, strict=True))
        if trains:
            replay.keep(self, plain, (args, kwargs), made)
        return made

    def whole(self, plain: Callable[..., Any], args: Any, kwargs: Any) -> Whole:
        return Whole(functools.partial(self._alone, plain), args, kwargs, rows_of((args, kwargs)))

    @contextlib.contextmanager
    def taking_a_part(self) -> Iterator[None]:
        """Raises CannotSplit where the model can't be called with some rows, or a pass leaves something in it."""
        if not _can_be_called_in_parts(self._model):
            raise CannotSplit("its modules have hooks, or have been compiled")
        with no_other_error(), self._keeping_nothing():
            yield

    def found_room(self, *, of_rows: bool) -> None:
        """So many rows at once as are taken now were seen to find room for their backward pass. ``of_rows``: all that they gave were rows
        of what the whole had given, so that there is no loss among it that could count for something else."""
        self._room = max(self._room, self.training.most or 0)
        if of_rows:
            self._possible.setdefault(True, [_of_rows])

    def buffers(self) -> dict[str, Any]:
        return dict(self._model.named_buffers())

    def weights_of(self, module: Any) -> list[Any]:
        """Those of the one that is called, which may be a part of the model."""
        if module not in self._weights_of:
            self._weights_of[module] = list(module.parameters())
        return self._weights_of[module]

    def _alone(self, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A pass in which the modules within aren't taken for others."""
        before, self._within = self._within, True
        try:
            return plain(*args, **kwargs)
        finally:
            self._within = before

    def _checkpointed(self, one: Whole, first: int, last: int) -> Any:
        from torch.utils.checkpoint import checkpoint

        if last - first > self._room:
            self._rehearse(one, first, last)
            self._room = last - first
        made, then = False, Before(statistics=self._statistics)

        def pass_over() -> Any:
            nonlocal made
            again, made = made, True
            with self._as_then(then) if again else contextlib.nullcontext():
                return one.part(first, last)

        return checkpoint(pass_over, use_reentrant=False, preserve_rng_state=False)

    def _rehearse(self, one: Whole, first: int, last: int) -> None:
        """Makes a part's forward pass, and its backward pass to the first weight and all that have no gradient yet, and forgets them: does
        it find room?"""
        import torch

        before = self.training.before()
        weights = [weight for weight in self._model.parameters() if weight.requires_grad]
        weights = weights[:1] + [weight for weight in weights[1:] if weight.grad is None]
        given = [tensor for tensor in tensors_of(one.part(first, last)) if tensor.requires_grad]
        torch.autograd.grad(given, weights, [torch.zeros_like(tensor) for tensor in given], allow_unused=True)
        before.put_back()

    @contextlib.contextmanager
    def _as_then(self, then: Before) -> Iterator[None]:
        """While open, random states and statistics are as they were when the part was computed first."""
        now = Before(statistics=self._statistics)
        then.put_back()
        try:
            yield
        finally:
            now.put_back()

    @contextlib.contextmanager
    def _keeping_nothing(self) -> Iterator[None]:
        """Raises CannotSplit where a pass leaves something in the model."""
        before = self._kept()
        yield
        for place, value in self._kept().items():
            if place not in before or before[place][0] is not value[0] or before[place][1] != value[1]:
                raise CannotSplit(f"a pass changes {place[1]} of the model")

    def _kept(self) -> dict[tuple[int, str], tuple[Any, int]]:
        """Attributes of all its modules, each with its length where it has one."""
        return {
            (at, name): (value, len(value) if isinstance(value, list | dict | set) else 0)
            for at, module in enumerate(self._model.modules()) for name, value in vars(module).items()
            if name not in ("_parameters", "_buffers", "_modules", "training")
        }  # fmt: skip

    def share(self, trains: bool, one: Whole, first: int, last: int) -> float:
        """What a loss of these rows counts for; looked at again where what was seen leaves answers that differ now."""

        def apart(possible: list[_Share]) -> bool:
            return len({round(share(one, first, last), 9) for share in possible}) > 1

        left = [one]
        while trains not in self._possible or apart(self._possible[trains]):
            if not left:
                raise CannotSplit("its loss could be a mean of rows, or of their labels")
            some = left.pop(0)
            self._possible[trains] = self._seen(some, self._possible.get(trains) or [_of_rows, *_of_labels(one)])
            middle = some.rows // 2
            left += [half for half in (some.within(0, middle), some.within(middle, some.rows)) if half.rows > 1]
        return self._possible[trains][0](one, first, last)

    def _seen(self, one: Whole, possible: list[_Share]) -> list[_Share]:
        """Those by which parts come to the whole, by as many rows of it as find room without gradients."""
        while True:
            try:
                return self._compared(one, possible)
            except RuntimeError as error:
                if one.rows < 4 or not splitting.of_memory(error):
                    raise
                traceback.clear_frames(error.__traceback__)
            splitting.give_back(young=True)
            one = one.within(0, one.rows // 2)

    def _compared(self, one: Whole, possible: list[_Share]) -> list[_Share]:
        """Raises CannotSplit where two halves don't come to what the whole gives."""
        import torch

        before, modes = self.training.before(), [(module, module.training) for module in self._model.modules()]
        for module, _ in modes:
            module.training = False  # parts draw other dropout
        try:
            with torch.no_grad(), torch.autocast(next(tensors_of(one.given)).device.type, enabled=False):
                middle, whole = one.rows // 2, one.part(0, one.rows)
                halves = one.part(0, middle), one.part(middle, one.rows)
        finally:
            for module, training in modes:
                module.training = training
            before.put_back()
        cuts = (0, middle), (middle, one.rows)
        sizes = [last - first for first, last in cuts]
        good = [share for share in possible if same(whole, splitting.joined(sizes, halves, [share(one, *cut) for cut in cuts]))]
        if not good:
            raise CannotSplit(f"{one.rows} rows give another result than their halves")
        return good if any(not tensor.dim() for tensor in tensors_of(whole)) else good[:1]


_Share = Callable[[Whole, int, int], float]
"""(a call, the first of its rows, before which it ends) -> what a loss of these rows counts for in that of all."""


def _of_rows(one: Whole, first: int, last: int) -> float:
    return (last - first) / one.rows


def _of_labels(one: Whole) -> list[_Share]:
    """By labels that aren't ignored, with the first of a row and without: as models of Hugging Face have it."""
    named = next((given for given in (one.given[1], *one.given[0]) if isinstance(given, Mapping) and "labels" in given), None)
    if named is None or not hasattr(named["labels"], "dim") or named["labels"].dim() < 2 or named["labels"].is_floating_point():
        return []

    def counted(since: int, whole: Whole, first: int, last: int) -> float:
        labels = next(given for given in (whole.given[1], *whole.given[0]) if isinstance(given, Mapping) and "labels" in given)["labels"]
        there = labels[:, since:] != splitting.IGNORED
        return float(there[first:last].sum()) / max(float(there.sum()), 1.0)

    return [functools.partial(counted, since) for since in (0, 1)]
