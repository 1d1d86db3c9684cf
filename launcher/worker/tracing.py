"""Runs a training step on tensors that hold no memory, and records the allocations and frees it would make.

``FakeTensorMode`` gives every tensor a shape and no bytes; a dispatch mode above it sees each new storage, and a finalizer sees it die.
Tensors are fake *CPU* tensors, because a backward pass of fake CUDA ones needs a CUDA context; ``autocast`` bends the CPU's lists to
CUDA's. Where an operator's result depends on data, ``Counts`` answers instead. What a trainer does around its model is said by its
``inside/``; docs/prediction.md tells how near that comes. It relies on PyTorch's private names, which a test holds against the pinned one.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

from launcher.shared import trace as traces
from launcher.shared.report import Phase
from launcher.shared.trace import ACCUMULATE, Began, Convolved, Gave, Multiplied, Took, Trace, TraceEvent

aten = torch.ops.aten

LEAST_PRIME = 11
"""Smaller ones divide too much: kernels of 3, 5 and 7, channels of 80."""
BEHIND = 5
"""Niceness: a trial may run beside it, whose steps are timed."""
FEW = 1 / 50
"""Part of a mask's elements that are true, where nothing better is known."""


# ---------------------------------------------------------------------------------------------------------------------------------
# Sizes


def primes(wanted: Mapping[str, int], *, beside: Iterable[int]) -> dict[str, int]:
    """Size -> the prime nearest to what is wanted that no other size has and that divides nothing of ``beside``."""
    taken: set[int] = set()
    constants = {abs(one) for one in beside if abs(one) > 1}
    found = {}
    for name, near in wanted.items():
        found[name] = next(prime for prime in _nearest(near) if prime not in taken and not any(one % prime == 0 for one in constants))
        taken.add(found[name])
    return found


def _nearest(number: int) -> Iterator[int]:
    for distance in range(100_000):
        for one in (number + distance, number - distance):
            if one >= LEAST_PRIME and all(one % divisor for divisor in range(2, int(one**0.5) + 1)):
                yield one


def dimensions(model: torch.nn.Module) -> set[int]:
    """Every dimension of every weight."""
    return {size for tensor in (*model.parameters(), *model.buffers()) for size in tensor.shape}


# ---------------------------------------------------------------------------------------------------------------------------------
# Tracing


@dataclass
class Counts:
    """How many elements of a mask are true, answered in the place of data; always a multiple of the sizes that the mask has."""

    sizes: Sequence[int]
    exact: Callable[[torch.Tensor], int | None] = lambda mask: None
    """Where the trainer's own rules say it."""

    def of(self, mask: torch.Tensor) -> int:
        said = self.exact(mask)
        if said is not None:
            return max(1, min(said, int(mask.numel())))
        unit = self.unit(int(mask.numel()))
        return unit * max(1, round(int(mask.numel()) // unit * FEW))

    def unit(self, number: int) -> int:
        """The part of a number that is made of sizes."""
        unit = 1
        for size in self.sizes:
            while number % size == 0:
                number //= size
                unit *= size
        return unit


class Tracer(TorchDispatchMode):  # type: ignore[misc]
    """Writes down every storage that operators below it make, and when it dies."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts
        self.events: list[TraceEvent] = []
        self.operators = 0
        self._known: dict[int, int] = {}  # a StorageImpl's address -> key
        self._next = 0

    def begin(self, phase: str) -> None:
        self.events.append(Began(phase))

    def adopt(self, tensors: Any) -> None:
        """Counts tensors that are there already: weights, a batch."""
        for tensor in tree_iter(tensors):
            if isinstance(tensor, torch.Tensor):
                self._see(tensor)

    def _see(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self._known:
            return
        key, self._next = self._next, self._next + 1
        self._known[address] = key
        self.events.append(Took(key, storage.nbytes()))
        events, known = self.events, self._known

        def died() -> None:
            known.pop(address, None)
            events.append(Gave(key))

        weakref.finalize(storage, died).atexit = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators += 1
        out = self._instead_of_data(func, args)
        if out is NotImplemented:
            if func in _INDEXED:
                args = (args[0], self._integers(args[1]), *args[2:])
            out = func(*args, **(kwargs or {}))
        for tensor in tree_iter(out):
            if isinstance(tensor, torch.Tensor):
                self._see(tensor)
        self._works(func, args, out)
        return out

    def _instead_of_data(self, func: Any, args: Any) -> Any:
        if func is aten._local_scalar_dense.default:
            kind = args[0].dtype
            return True if kind is torch.bool else 1.0 if kind.is_floating_point else 1
        if func is aten.nonzero.default:
            return torch.empty((self.counts.of(args[0]), args[0].dim()), dtype=torch.int64)
        if func is aten.masked_select.default:
            return torch.empty((self.counts.of(args[1]),), dtype=args[0].dtype)
        if func is aten.equal.default:
            return True
        if func is aten._unique2.default:  # all of them differ: the most
            flat = args[0].reshape(-1)
            return flat.clone(), torch.empty_like(args[0], dtype=torch.int64), torch.empty_like(flat, dtype=torch.int64)
        return NotImplemented

    def _integers(self, indices: Any) -> list[Any]:
        """Boolean indices as ATen takes them: by ``nonzero``, one column of int64 for each dimension of the mask."""
        found: list[Any] = []
        for index in indices:
            if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
                columns = torch.empty((self.counts.of(index), index.dim()), dtype=torch.int64)
                self._see(columns)
                found += columns.unbind(1)
            else:
                found.append(index)
        return found

    def _works(self, func: Any, args: Any, out: Any) -> None:
        """What takes a workspace."""
        if func is aten.convolution.default:
            self.events.append(Convolved(False, _size(args[0]), _size(args[1]), _size(out), args[1][0, 0].numel() == 1))
        elif func is aten.convolution_backward.default:
            self.events.append(Convolved(True, _size(args[1]), _size(args[2]), _size(args[0]), args[2][0, 0].numel() == 1))
        elif func in _PRODUCTS:
            self.events.append(Multiplied(torch._C._current_graph_task_id() != -1))


_INDEXED = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._unsafe_index.Tensor)
_PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default)


def _size(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


@contextlib.contextmanager
def tracing(counts: Counts) -> Iterator[tuple[Tracer, FakeTensorMode]]:
    """Everything inside is traced and computes nothing."""
    tracer, mode = Tracer(counts), FakeTensorMode(allow_non_fake_inputs=True)
    with (
        _moving(),
        _casts(),
        mode,
        tracer,
    ):  # the casts last: a checkpointed layer is run once more in the backward pass, outside of autocast
        yield tracer, mode


@contextlib.contextmanager
def _moving() -> Iterator[None]:
    """``Module.to`` swaps a parameter's insides, which can't be done to one without memory ("Couldn't swap"): here a new one takes its
    place, which stays the same one where nothing changes."""
    plain = torch.nn.Module._apply

    def apply(module: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> torch.nn.Module:
        for child in module.children() if recurse else ():
            apply(child, fn)
        for name, one in _own(module.named_parameters):
            if (moved := fn(one)) is not one:
                setattr(module, name, torch.nn.Parameter(moved.detach(), requires_grad=one.requires_grad))
        for name, buffer in _own(module.named_buffers):
            setattr(module, name, fn(buffer))
        return module

    torch.nn.Module._apply = apply
    try:
        yield
    finally:
        torch.nn.Module._apply = plain


def without_memory(model: torch.nn.Module, mode: FakeTensorMode) -> None:
    """Puts fake weights in the place of a model's real ones, whose memory is freed. Tied weights stay tied.

    Each is made anew: ``from_tensor`` gives two views of one real storage one fake storage, and a copy would weigh nothing.
    """
    known: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in _own(module.named_parameters):
            if not isinstance(parameter, FakeTensor):
                if id(parameter) not in known:
                    fake = torch.empty_like(mode.from_tensor(parameter.detach()))
                    known[id(parameter)] = torch.nn.Parameter(fake, requires_grad=parameter.requires_grad)
                setattr(module, name, known[id(parameter)])
        for name, buffer in _own(module.named_buffers):
            if not isinstance(buffer, FakeTensor):
                setattr(module, name, torch.empty_like(mode.from_tensor(buffer)))


def _own(named: Callable[..., Iterable[tuple[str, Any]]]) -> list[tuple[str, Any]]:
    """A module's own weights or buffers, each under every name that it has there."""
    return list(named(recurse=False, remove_duplicate=False))


def state_there(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Lets an optimizer make its state, as it has after its first step."""
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def gradients_there(parameters: Sequence[torch.nn.Parameter]) -> None:
    """Gradients as the micro-batches before have left them."""
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)


class TracedTraining(Protocol):
    """One trainer's parts of a step; each is run on tensors without memory."""

    optimizer: torch.optim.Optimizer
    trained: list[torch.nn.Parameter]

    def micro_batch(self) -> None:
        """A forward and backward pass."""

    def step(self) -> None:
        """The optimizer's, and what is done around it."""

    def validation(self) -> None:
        """Of one batch."""


def whole(training: TracedTraining, tracer: Tracer) -> None:
    """A first step, a validation, and a step that comes upon gradients, each begun as its phase; the optimizer's state is there before."""
    state_there(training.optimizer, training.trained)
    tracer.begin(Phase.TRAIN)
    training.micro_batch()
    training.step()
    tracer.begin(Phase.VALIDATE)
    training.validation()
    tracer.begin(ACCUMULATE)
    gradients_there(training.trained)
    training.micro_batch()
    training.step()


# ---------------------------------------------------------------------------------------------------------------------------------
# A CPU that casts as a card


CASTS = (
    "exp", "log", "log2", "log10", "log1p", "expm1", "reciprocal", "rsqrt", "softplus", "pow.Tensor_Scalar", "pow.Tensor_Tensor",
    "pow.Scalar", "cumsum", "cumprod", "softmax.int", "log_softmax.int", "sum", "sum.dim_IntList", "layer_norm", "native_layer_norm",
    "group_norm", "rms_norm", "logsumexp", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_bicubic2d",
)  # fmt: skip
"""Operators that autocast runs in fp32 on CUDA, and leaves alone on a CPU: those with a kernel for the key AutocastCUDA and none for
AutocastCPU (``torch._C._dispatch_has_kernel_for_dispatch_key``), less what no trainer here calls."""


@contextlib.contextmanager
def autocast(dtype: torch.dtype | None) -> Iterator[None]:
    """CUDA's autocast on CPU tensors; None: none."""
    if dtype is None:
        yield
        return
    with _casts(), torch.autocast("cpu", dtype=dtype):
        yield


_casting = False
"""Whether ``CASTS`` are bent; torch takes each of them once."""


@contextlib.contextmanager
def _casts() -> Iterator[None]:
    """Wherever the CPU's autocast is on in here, it keeps ``CASTS`` in fp32, too."""
    global _casting
    if _casting:
        yield
        return
    library = torch.library.Library("aten", "IMPL")
    key = torch._C.DispatchKey.AutocastCPU
    try:
        for name in CASTS:
            library.impl(name, _in_fp32(name, key), "AutocastCPU")
        _casting = True
        yield
    finally:
        _casting = False
        library._destroy()


def _in_fp32(name: str, key: Any) -> Callable[..., Any]:
    operator, _, overload = name.partition(".")
    found = getattr(getattr(aten, operator), overload or "default")

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return found(*_up(args), **_up(kwargs))

    return call


def _up(value: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda one: one.float() if one.dtype in (torch.bfloat16, torch.float16) else one, value)


# ---------------------------------------------------------------------------------------------------------------------------------
# The child


def main(orders: Path, trace: Callable[[Mapping[str, Any]], Trace]) -> None:
    """Takes a JSON list of ``{"payload": ..., "out": PATH}``; each trace is written to its ``out``, or why there is none beside it."""
    with contextlib.suppress(OSError):
        os.nice(BEHIND)
    for one in json.loads(orders.read_text(encoding="utf-8")):
        out = Path(one["out"])
        began = time.process_time()
        try:
            made = trace(one["payload"])
        except Exception as error:  # whatever a trainer's code says to tensors without memory
            traceback.print_exc()
            why_not(out).write_text(f"{type(error).__name__}: {' '.join(str(error).split())}"[:500], encoding="utf-8")
            continue
        finally:
            gc.collect()
        traces.write(out, made)
        took = time.process_time() - began
        print(f"{out.name}: {len(made.events)} events, {took:.1f} s of processor time", file=sys.stderr, flush=True)


def why_not(out: Path) -> Path:
    return out.with_suffix(".why")


def versions(*packages: str) -> dict[str, str]:
    """Of those that are installed."""
    found = {}
    for name in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
