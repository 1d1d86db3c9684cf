"""Computes on the CPU what an operator would have computed on a card, in the very memory that the card's allocator gave it.

Every operator runs twice: as PyTorch's own CUDA operator, which allocates what it allocates and launches kernels that do nothing, and on
the CPU, over the same bytes (a pretended card's memory is the host's). Where PRETENDED_SMALL_BYTES is set, operators that touch a larger
tensor are left out, and so are those that touch what came of one: a network's values behind its first large layer are unknown, its labels
are not. Small results and whole numbers that are left out are zeros; questions of truth are answered so that a training goes on.

Source of the operators' arguments: PyTorch's native_functions.yaml. tests/unit/pretended compares values with the CPU's.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import math
import os
import threading
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only

aten = torch.ops.aten
SMALL_BYTES = int(os.environ.get("PRETENDED_SMALL_BYTES", 0))
"""0: every operator is computed."""
_SIZED_BY_DATA = (
    "nonzero", "nonzero_static", "masked_select", "masked_scatter", "_unique", "_unique2", "unique_dim", "unique_consecutive",
    "repeat_interleave", "bincount", "isin",
)  # fmt: skip
"""Their result's size, or its very path, depends on values: the CPU answers first."""
_SCALARS = {"_local_scalar_dense", "equal", "is_nonzero"}
_INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
_OVERWRITING = {"copy_", "fill_", "zero_"}
"""Nothing of their first argument's values comes into the result."""
_MULTIPLYING = {"convolution", "convolution_backward", "mm", "addmm", "bmm", "baddbmm"}
"""Operators for which a CPU takes 5 to 20 times as long in half precision as in float32, in which a card sums them up, too."""
_FINITE = "_amp_foreach_non_finite_check_and_unscale_"
"""Operator by which a gradient scaler asks whether gradients are finite: its second argument stays 0 where they aren't known."""
_COLLECTIVE = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")
_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = os.sysconf("SC_PAGESIZE")
_DONTNEED = 4
"""madvise's MADV_DONTNEED: private memory of no file reads as zeros afterwards (madvise(2))."""
_unknown: set[int] = set()
"""Addresses at which storages begin that came of something left out."""


def on_card(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) and thing.is_cuda


def same_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over a CUDA tensor's own bytes; any other tensor is itself."""
    if not tensor.is_cuda:
        return tensor
    storage = tensor.untyped_storage()
    count = storage.nbytes()
    if count == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    buffer = torch.frombuffer((ctypes.c_char * count).from_address(storage.data_ptr()), dtype=torch.uint8)
    out = torch.empty(0, dtype=tensor.dtype)
    out.set_(buffer.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    out = out.conj() if tensor.is_conj() else out
    return torch._neg_view(out) if tensor.is_neg() else out


def _for_cpu(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        return same_bytes(thing)
    if isinstance(thing, torch.device) and thing.type == "cuda":
        return torch.device("cpu")
    if isinstance(thing, torch.Generator) and thing.device.type == "cuda":
        return None
    return thing


# -- operators that the CPU has by other names, or with other arguments


def _attention(name: str, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Scaled dot product attention, flash or memory-efficient, forward or backward, in fp32."""
    efficient, backward = "efficient" in name, name.endswith("backward")
    grad, given = args[0], args[1:4] if backward else args[:3]
    q, k, v = (one.float() for one in given)
    at = 11 if backward else 6 if efficient else 4
    scale = kwargs.get("scale")
    by = scale if scale is not None else q.shape[-1] ** -0.5
    scores = q @ k.transpose(-2, -1) * by
    if efficient and (bias := args[4 if backward else 3]) is not None:
        scores = scores + bias.float()
    if args[at] if len(args) > at else kwargs.get("is_causal", False):
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    weights = scores.softmax(-1).nan_to_num()
    if not backward:
        return ((weights @ v).to(given[0].dtype),)
    of_weights = grad.float() @ v.transpose(-2, -1)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * by
    found = of_scores @ k, of_scores.transpose(-2, -1) @ q, weights.transpose(-2, -1) @ grad.float()
    return tuple(one.to(asked.dtype) for one, asked in zip(found, given, strict=True))


def _by_cpu(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """The operator's result by the CPU. ``args``: for the CPU already."""
    kwargs.pop("pin_memory", None)
    if name in _MULTIPLYING:
        args = [one.float() if isinstance(one, torch.Tensor) and one.dtype in (torch.float16, torch.bfloat16) else one for one in args]
    if name.startswith(("_scaled_dot_product_efficient", "_scaled_dot_product_flash_attention")) and "for_cpu" not in name:
        return _attention(name, args, kwargs)
    if name == "cudnn_batch_norm":
        return (*aten.native_batch_norm(*args), torch.empty(0, dtype=torch.uint8))
    if name == "cudnn_batch_norm_backward":
        x, grad, weight, running_mean, running_var, mean, inverse, epsilon, _ = args
        return aten.native_batch_norm_backward(grad, x, weight, running_mean, running_var, mean, inverse, True, epsilon, [True, True, True])
    if name in ("_softmax", "_log_softmax") and args[2]:  # half to float, which the CPU doesn't have
        return func(args[0].float(), args[1], False)
    if name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        return func(args[0], args[1], args[2], args[0].dtype).to(args[3])
    return func(*args, **kwargs)


# -- what is left out


def _is_unknown(thing: Any) -> bool:
    if not on_card(thing):
        return False
    storage = thing.untyped_storage()
    return storage.nbytes() > SMALL_BYTES or (storage.data_ptr() in _unknown and _is_number(thing))


def _is_left_out(name: str, flat: list[Any], outs: list[torch.Tensor]) -> bool:
    if not SMALL_BYTES:
        return False
    sources = flat[1:] if name in _OVERWRITING else flat
    return any(map(_is_unknown, sources)) or any(one.is_cuda and one.untyped_storage().nbytes() > SMALL_BYTES for one in outs)


def _remember(tensors: Iterable[torch.Tensor], *, unknown: bool) -> None:
    """Whole numbers and truths are never unknown: what was left out of them is answered once, and holds from then on."""
    for one in tensors:
        if one.is_cuda and unknown and _is_number(one):
            _unknown.add(one.untyped_storage().data_ptr())
        elif one.is_cuda:
            _unknown.discard(one.untyped_storage().data_ptr())


def _is_number(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


@functools.cache
def _places_written(func: Any) -> list[tuple[int, str]]:
    arguments = enumerate(func._schema.arguments)
    return [(at, one.name) for at, one in arguments if one.alias_info is not None and one.alias_info.is_write]


def _written(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors that an operator changes."""
    changed = [args[at] if at < len(args) else kwargs.get(name) for at, name in _places_written(func)]
    return [one for one in _flat(changed, {}) if isinstance(one, torch.Tensor)]


def _leave_out(made: Iterable[torch.Tensor], *, is_true: bool) -> None:
    """Makes zeros of what isn't computed where it is small, or whole numbers, by which something may be picked: its memory had other
    values before. Truths become True where ``is_true``."""
    for one in made:
        small = one.untyped_storage().nbytes() <= SMALL_BYTES
        if one.is_cuda and (small or not _is_number(one)):
            _zeroed(one)
        elif small:
            one.zero_()
        if one.dtype == torch.bool and is_true:
            same_bytes(one).fill_(True)


def _zeroed(tensor: torch.Tensor) -> None:
    """Zeros in a tensor's memory; whole pages are given back to the host, so that this costs next to nothing."""
    storage = tensor.untyped_storage()
    begin, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    first, last = -(-begin // _PAGE) * _PAGE, end // _PAGE * _PAGE
    if last <= first or _LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _DONTNEED):
        first = last = end
    ctypes.memset(begin, 0, first - begin)
    ctypes.memset(last, 0, end - last)


def _lets_go_on(name: str, args: Any) -> bool:
    """Tells whether a truth that isn't computed must be True for a training to go on: that everything is finite. PyTorch asks it as
    x == x and abs(x) != infinity. Others are False: that something isn't a number, that a score is above a bound."""
    itself = len(args) > 1 and args[0] is args[1]
    infinite = len(args) > 1 and isinstance(args[1], float) and math.isinf(args[1])
    return name in ("isfinite", "all") or (name == "eq" and itself) or (name == "ne" and infinite)


# -- the mode


class Operators(TorchDispatchMode):  # type: ignore[misc]
    """Mode in which what a card's operators would have computed is there."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would put a decorator around each operator's way; nothing is compiled on a pretended card."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        flat = _flat(args, kwargs)
        name = func._schema.name.partition("::")[2]
        if not any(on_card(one) or (isinstance(one, torch.device) and one.type == "cuda") for one in flat):
            return func(*args, **kwargs)
        if func.namespace in _COLLECTIVE or name == "_fused_sdp_choice" or _only_shapes(flat):
            return func(*args, **kwargs)
        if any(type(one) is not torch.Tensor and isinstance(one, torch.Tensor) and is_traceable_wrapper_subclass(one) for one in flat):
            return NotImplemented  # a DTensor has no bytes of its own: it asks again with its local parts
        if torch.is_inference_mode_enabled() and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:  # autograd's keys, which take these apart elsewhere, are off there
                there = func.decompose(*args, **kwargs)
            if there is not NotImplemented:
                return there
        if name in _SCALARS:
            return True if name == "equal" and SMALL_BYTES and any(map(_is_unknown, flat)) else func(*_read(args), **_read(kwargs))
        if name in _SIZED_BY_DATA or func.namespace == "torchvision":
            return self._answered_first(func, args, kwargs, flat)
        if name in _INDEXED:
            args = (args[0], _as_numbers(args[1]), *args[2:])
        return self._twice(func, name, args, kwargs, flat)

    def _answered_first(self, func: Any, args: Any, kwargs: Any, flat: list[Any]) -> Any:
        """The CPU's answer, in memory of the card's."""
        there = func(*_read(args), **_read(kwargs))
        card = next((one.device for one in flat if on_card(one)), torch.device("cuda"))
        out = tree_map_only(torch.Tensor, functools.partial(_moved, card=card), there)
        _remember(_tensors(out), unknown=_is_left_out("", flat, []))
        return out

    def _twice(self, func: Any, name: str, args: Any, kwargs: Any, flat: list[Any]) -> Any:
        out = func(*args, **kwargs)  # the allocator's part
        outs = _tensors(out)
        held = {one.untyped_storage().data_ptr() for one in flat if on_card(one)}
        if name == "lift_fresh":  # torch.tensor(...), whose memory was taken and written where no mode sees it
            _remember(outs, unknown=False)
        if name == "set_" or (_is_view(func) and all(one.untyped_storage().data_ptr() in held for one in outs)):
            return out
        given = {id(one) for one in flat if isinstance(one, torch.Tensor)}
        made = [one for one in outs if id(one) not in given and one.numel()]
        if _is_left_out(name, flat, outs):
            _leave_out(made, is_true=_lets_go_on(name, args))
            _remember([*made, *(one for one in _written(func, args, kwargs) if name != _FINITE or one is not args[1])], unknown=True)
            return out
        whole = name in _OVERWRITING and args[0].numel() * args[0].itemsize == args[0].untyped_storage().nbytes()
        _remember([*made, *(args[:1] if whole else ())], unknown=False)
        return _computed(func, args, kwargs, out, made)


def _computed(func: Any, args: Any, kwargs: Any, out: Any, made: list[torch.Tensor]) -> Any:
    """``out`` with the CPU's values."""
    name = func._schema.name.partition("::")[2]
    if name == "_to_copy":
        same_bytes(out).copy_(same_bytes(args[0]))
        return out
    try:
        there = _by_cpu(func, name, tree_map(_for_cpu, args), tree_map(_for_cpu, kwargs))
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
        for one in made:  # nor can the CPU
            same_bytes(one).zero_()
        return out
    found, new = tree_flatten(there)[0], {id(one) for one in made}
    if there is not None and not any(isinstance(one, torch.Tensor) for one in found):
        return there  # a number or a truth
    held = {one.untyped_storage().data_ptr() for one in _flat(args, kwargs) if on_card(one)}
    for one, value in zip(tree_flatten(out)[0], found, strict=False):
        if isinstance(value, torch.Tensor) and id(one) in new:
            _put(one, value, held)
    return out


def _flat(args: Any, kwargs: Any) -> list[Any]:
    """An operator's arguments; they are nested once at most, as lists of tensors."""
    found: list[Any] = []
    for one in (*args, *kwargs.values()):
        found.extend(one) if isinstance(one, list | tuple) else found.append(one)
    return found


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [one for one in _flat((tree,), {}) if isinstance(one, torch.Tensor)]


def _read(tree: Any) -> Any:
    """Arguments for the CPU that decide what happens next: numbers that are unknown are zeros."""
    return tree_map(
        lambda one: torch.zeros(one.shape, dtype=one.dtype) if SMALL_BYTES and _is_unknown(one) and _is_number(one) else _for_cpu(one), tree
    )


def _put(one: torch.Tensor, value: torch.Tensor, held: set[int]) -> None:
    """Writes a result's values; a view of what was given has them already."""
    if one.numel() and value.shape == one.shape and not (one.is_cuda and one.untyped_storage().data_ptr() in held):
        same_bytes(one).copy_(value)


def _only_shapes(flat: Iterable[Any]) -> bool:
    """Tells whether only shapes are asked for (DTensor does)."""
    fake = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
    return fake or any(type(one).__name__ == "FakeTensor" for one in flat)


@functools.cache
def _is_view(func: Any) -> bool:
    return any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.arguments)


def _moved(value: torch.Tensor, card: torch.device) -> torch.Tensor:
    new = torch.empty(value.shape, dtype=value.dtype, device=card)
    if value.numel():
        same_bytes(new).copy_(value)
    _remember([new], unknown=False)
    return new


def _as_numbers(indices: Any) -> list[Any]:
    """Masks as the places that they are true at: the card's operator would count them by itself."""
    found: list[Any] = []
    for one in indices:
        if isinstance(one, torch.Tensor) and one.dtype in (torch.bool, torch.uint8):
            found += [_moved(place, card=one.device) for place in same_bytes(one).nonzero().unbind(1)]
        else:
            found.append(one)
    return found


def let_go() -> None:
    """Makes autograd's threads let go of Python's objects before the interpreter ends.

    A thread lets go of a backward pass's when it has told that it is over, and needs the interpreter for it: one that is late aborts the
    process. That is PyTorch's own (2.15, torch/autograd/graph.py: contexts go to the threads), and with this mode one small script in
    three meets it. So each thread is given another pass, that has no objects.
    """
    if not torch.cuda.is_initialized():
        return
    with contextlib.suppress(RuntimeError), _disable_current_modes():
        for card in range(torch.cuda.device_count()):
            if torch.cuda.memory_reserved(card):
                leaf = torch.zeros(1, device=card, requires_grad=True)
                torch.autograd.Variable._execution_engine.run_backward((leaf * 1,), (leaf.detach(),), False, False, (), True, True)


def begin() -> None:
    """Enters the mode in this thread and in every one that is started later (a mode is its thread's)."""
    if SMALL_BYTES:
        torch.set_num_threads(1)  # several wait for each other longer than one computes what is small: 5 times as long on a busy machine
    torch.backends.cuda.enable_cudnn_sdp(False)  # needs plans of cuDNN's own, which no stand-in has; flash attention takes its place
    mode = Operators()
    mode.__enter__()
    atexit.register(let_go)
    atexit.register(mode.__exit__, None, None, None)  # before let_go: PyTorch 2.6 dies of one that is entered again there
    run = threading.Thread.run

    @functools.wraps(run)
    def computed(self: threading.Thread) -> None:
        with Operators():
            run(self)

    threading.Thread.run = computed  # type: ignore[method-assign]
