"""The model's ``forward`` seen from outside: training and evaluation told apart, and stub outputs where fast-forward wants them."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from ..common.report import DIVIDED_BY, MICRO_BATCHES, WORLD_SIZE, Phase
from .loader_look import largest
from .part import world_size

if TYPE_CHECKING:
    from .instrument import Instrument

SMALL = 1024
"""Outputs up to so many elements (losses, say) keep their values in a stub; larger ones become their mean, in no memory."""


class Forward:
    """Stands as ``forward`` on one module instance, and calls the one before it.

    It is put into the instance's ``__dict__``: a module that passes attributes on (Lightning Fabric's wrapper) would set it on the module
    inside it instead, which the one before it calls.
    """

    def __init__(self, root: Any, instrument: Instrument) -> None:
        self._root, self._instrument = root, instrument
        self._own = root.__dict__.get("forward")
        self._before = root.forward
        self._stubs: dict[Any, Any] = {}
        self._evaluated = 0
        self._inner = _wrapped(root)
        self._apart = _apart(self._inner)
        self._parameters: list[Any] = []
        self._trained: set[Any] = set()
        self._weights = 0
        functools.update_wrapper(self, self._before)

    @classmethod
    def put(cls, root: Any, instrument: Instrument) -> None:
        root.__dict__["forward"] = cls(root, instrument)

    @classmethod
    def remove(cls, root: Any) -> None:
        this = root.__dict__.get("forward")
        if isinstance(this, cls):
            del root.__dict__["forward"]
            if this._own is not None:
                root.__dict__["forward"] = this._own

    @staticmethod
    def without(state: dict[str, Any]) -> dict[str, Any]:
        """Returns a module's state as it is without us: for its copies and pickles."""
        this = state.get("forward")
        if not isinstance(this, Forward):
            return state
        rest = {key: value for key, value in state.items() if key != "forward"}
        return rest if this._own is None else {**rest, "forward": this._own}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the model (its moving average, say) gets a ``forward`` of its own."""
        copy = memo.get(id(self._root))
        if copy is None or self._own is not None:
            return self._before
        return types.MethodType(type(copy).forward, copy)

    def __reduce__(self) -> Any:
        """Makes a pickle that knows nothing of autofit, of a module whose own ``__getstate__`` has left us in."""
        return (getattr, (self._root, "forward"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        instrument = self._instrument
        if torch.compiler.is_compiling() or not instrument.active or instrument.passive:
            return self._before(*args, **kwargs)
        if torch.is_grad_enabled() and (self._root.training or instrument.trains_in_eval_mode):
            return self._train(args, kwargs)
        if not torch.is_grad_enabled() or instrument.proven:
            return self._evaluate(args, kwargs)
        return self._really(args, kwargs)

    def _train(self, args: Any, kwargs: Any) -> Any:
        instrument = self._instrument
        instrument.together.place("forward")
        instrument.training()
        shapes, weights = _shapes((args, kwargs)), self._trained_weights()
        if instrument.forwarding and (shapes not in self._trained or weights > self._weights):
            instrument.something_new()
        if not instrument.forwarding:
            self._weights = max(weights, self._weights)
            self._trained.add(shapes)
            instrument.varies = instrument.varies or len(self._trained) > len({tuple(one[:1] for one in each[0]) for each in self._trained})
            _observe_batch(instrument, args, kwargs)
            instrument.counts.forwards += 1
            return self._really(args, kwargs)
        return self._stubbed(("train",), args, kwargs)

    def _trained_weights(self) -> int:
        """Counts the weights that are trained just now: some thaw late."""
        self._parameters = self._parameters or list(self._root.parameters())
        return sum(parameter.requires_grad for parameter in self._parameters)

    def _evaluate(self, args: Any, kwargs: Any) -> Any:
        instrument, ending = self._instrument, self._instrument.phase is Phase.FINISH
        opened = [one for one in instrument.passes.open if one.kind == "eval"]
        if not opened:  # no data loader: every call counts as a batch
            if (not (trains := instrument.trains(self._root)) or self._root.training) and instrument.passes.in_a_batch():
                return self._really(args, kwargs) if trains or not instrument.forwarding else self._stubbed(("beside",), args, kwargs)
            if instrument.phase is not Phase.VALIDATE and not ending:
                self._evaluated = 0
            instrument.validating()
        key = ("eval", _shapes((args, kwargs)))
        enough = opened[-1].seen_enough() if opened else ending or self._evaluated >= instrument.wanted_validation
        if enough and key in self._stubs:
            return _filled(self._stubs[key])
        out = self._really(args, kwargs)
        if not opened:
            self._evaluated += 1
            instrument.validation_batch()
        if ending or not opened:  # at the end nothing is learnt any more: the next pass over these data gives the same
            self._stubs[key] = _described(out)
        return out

    def _stubbed(self, key: Any, args: Any, kwargs: Any) -> Any:
        import torch

        key = (*key, _shapes((args, kwargs)))
        if key not in self._stubs or not (world_size() == 1 or self._apart):  # then all ranks run it, at each of their calls
            with torch.no_grad():
                self._stubs[key] = _described(self._really(args, kwargs) if self._inner is None else self._inner(*args, **kwargs))
        return _filled(self._stubs[key])

    def _really(self, args: Any, kwargs: Any) -> Any:
        try:
            return self._before(*args, **kwargs)
        except Exception as error:
            self._instrument.swallowed_perhaps(error)
            raise


def _wrapped(root: Any) -> Any:
    """The model inside ``DistributedDataParallel``, compiled or not; None where there is none."""
    from torch.nn.parallel import DistributedDataParallel

    root = getattr(root, "_orig_mod", root)
    return root.module if isinstance(root, DistributedDataParallel) else None


def _apart(inner: Any) -> bool:
    """Tells whether one rank can run a model by itself: one in ``DistributedDataParallel``, without a batch norm of all ranks."""
    import torch

    return inner is not None and not any(isinstance(one, torch.nn.SyncBatchNorm) for one in inner.modules())


def _shapes(value: Any) -> Any:
    """A key that equal shapes share, with equal flags beside them."""
    import torch
    from torch.utils import _pytree

    leaves, spec = _pytree.tree_flatten(value)
    kinds = (str(leaf) if isinstance(leaf, bool) else type(leaf).__name__ for leaf in leaves)
    return tuple(tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else kind for leaf, kind in zip(leaves, kinds, strict=True)), str(spec)


def _described(value: Any) -> Any:
    """An output with its large tensors replaced by one element each."""
    import torch
    from torch.utils import _pytree

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.detach()
        if leaf.numel() <= SMALL:
            return _Large(leaf.clone(), None)
        mean = leaf.flatten()[:SMALL].float().mean() if leaf.is_floating_point() else leaf.flatten()[0]
        return _Large(mean.to(leaf.dtype), tuple(leaf.shape))

    return _pytree.tree_map(one, value)


class _Large:
    """A tensor, by its value or by one element and its shape."""

    def __init__(self, value: Any, shape: tuple[int, ...] | None) -> None:
        self.value, self.shape = value, shape


def _filled(described: Any) -> Any:
    from torch.utils import _pytree

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, _Large):
            return leaf
        return leaf.value.clone() if leaf.shape is None else leaf.value.expand(leaf.shape)

    return _pytree.tree_map(one, described)


def _observe_batch(instrument: Instrument, args: Any, kwargs: Any) -> None:
    """Takes the micro-batch from the model's input, if no data loader tells it."""
    recorder = instrument.recorder
    if recorder is None or "micro_batch" in recorder.told.observed:
        return
    if shape := largest((args, kwargs)):
        observe_micro_batch(instrument, shape[0], shape[:2])


def observe_micro_batch(instrument: Instrument, seen: int, candidates: tuple[int, ...] = ()) -> None:
    """Notes the micro-batch that ran. A script that divides what it is given over its ranks has run what was asked; so has one that changes
    its batch itself, where the asked one came."""
    recorder, asked, processes = instrument.recorder, instrument.orders.payload.get("micro_batch"), world_size()
    assert recorder is not None
    if asked in candidates:
        seen = asked
    ran = seen
    if seen != asked and asked is not None and processes > 1 and seen * processes == asked:
        recorder.note(f"the script divides its batch of {asked} over {processes} processes")
        recorder.fact(**{DIVIDED_BY: processes})
        ran = asked
    sizes = instrument.micro_batches
    if ran not in sizes:
        sizes.append(ran)
    if len(sizes) > 1 and not recorder.told.swallowed:
        recorder.note(f"the script changes its batch itself: {', then '.join(map(str, sizes))} samples")
        seen = ran = asked if asked in sizes else sizes[0]
    recorder.fact(**{"samples": seen, WORLD_SIZE: processes, MICRO_BATCHES: list(sizes)})
    recorder.observe(micro_batch=ran)
