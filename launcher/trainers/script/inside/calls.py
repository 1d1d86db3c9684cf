"""A call of a script's model, of which some rows can be asked for, and what it takes and gives: tensors in tuples, lists and dicts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ....worker import splitting
from ....worker.splitting import CannotSplit

NEAR, NEAR_HALF = 1e-4, 3e-2
"""What the whole and its parts give is the same to this, by the largest of it; the second where it has numbers of half the length."""
NEAR_SUM = 3e-6
"""A loss that the model itself gives."""


class Whole:
    """One call of a model, of which some rows can be asked for."""

    def __init__(self, plain: Callable[[Any, Any], Any], args: Any, kwargs: Any, rows: int) -> None:
        self._plain, self.given, self.rows = plain, (args, kwargs), rows

    def part(self, first: int, last: int) -> Any:
        if (first, last) == (0, self.rows):
            return self._plain(*self.given)
        return self._plain(*self.some(first, last))

    def some(self, first: int, last: int) -> Any:
        """(args, kwargs) of these rows; what has no rows stays as it is."""
        return some_of(self.given, first, last, self.rows)

    def within(self, first: int, last: int) -> Whole:
        args, kwargs = self.some(first, last)
        return Whole(self._plain, args, kwargs, last - first)


def rows_of(given: Any) -> int:
    """The first dimension of the first tensor in what a model is called with; 0 where there is none."""
    return next((len(tensor) for tensor in tensors_of(given) if tensor.dim()), 0)


def tensors_of(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from (tensor for one in value.values() for tensor in tensors_of(one))
    elif isinstance(value, list | tuple):
        yield from (tensor for one in value for tensor in tensors_of(one))


def some_of(value: Any, first: int, last: int, rows: int) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value[first:last] if value.dim() and len(value) == rows else value
    if isinstance(value, Mapping):
        return splitting.like(value, {name: some_of(one, first, last, rows) for name, one in value.items()})
    if isinstance(value, list | tuple):
        return splitting.like(value, [some_of(one, first, last, rows) for one in value])
    return value


def same(whole: Any, parts: Any) -> bool:
    one, other = list(tensors_of(whole)), list(tensors_of(parts))
    return len(one) == len(other) and all(map(near, one, other))


def near(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return bool((one == other).all())
    near = NEAR_HALF if one.dtype.itemsize < 4 else NEAR if one.dim() else NEAR_SUM
    return not one.numel() or bool((one - other).abs().max() <= near * one.abs().max())


@contextlib.contextmanager
def no_other_error() -> Iterator[None]:
    """What fails in a part for another reason than memory is no part: its rows can't be told apart."""
    try:
        yield
    except Exception as error:
        if isinstance(error, CannotSplit) or splitting.of_memory(error):
            raise
        raise CannotSplit(f"some of its rows fail: {type(error).__name__}: {str(error)[:200]}") from error


def is_traced() -> bool:
    import torch

    return bool(torch.compiler.is_compiling() or torch.jit.is_tracing())
