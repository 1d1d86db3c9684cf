"""What a script gathers of every batch of a pass, predictions for a score, say: found in its lists and, where the pass is cut, gathered for
the whole of it, so that what the script then makes of it (``torch.cat``) is as large as in its run.

A list counts that is longer by the same number of arrays or tensors after each of the last batches; lists of numbers that grow with it are
filled, too, so that both are as long.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .....shared import procfs

LEAST_GROWTH = 64 * 2**10
"""Bytes per batch; less is noise."""
LEAST_FILLED = 8 * 2**20
"""Less in all isn't worth the search."""
LOOKS = 3
_OURS = (__name__.partition(".")[0] + ".", "_autofit")


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left out of a pass."""

    batches: int
    rows: int = 0
    """Of a batch; 0 where nobody knows."""
    last_rows: int = 0
    """Of the last one."""


class Gathered:
    """What is in use after each batch of a pass, and the lists that grow with every batch. ``most``: so many of the last batches are looked
    at; None: all of them. ``clear`` makes it that of the next pass."""

    def __init__(self, device: str, most: int | None = None) -> None:
        self._devices = ("cuda", "cpu") if device == "cuda" else ("cpu",)
        self._looks: deque[tuple[int, ...]] = deque(maxlen=most)
        self._lengths: deque[dict[int, int]] = deque(maxlen=LOOKS)

    def __len__(self) -> int:
        return len(self._looks)

    def look(self) -> None:
        """A batch is through. What the search itself takes is none of the script's."""
        if not self._lengths:
            self._looks.append(tuple(map(live_bytes, self._devices)))

    def clear(self) -> None:
        self._looks.clear()
        self._lengths.clear()

    def each(self, device: str) -> int:
        """Bytes that every batch leaves behind there."""
        if device not in self._devices or len(self._looks) < LOOKS:
            return 0
        return steady_growth([look[self._devices.index(device)] for look in self._looks])

    def all(self) -> dict[str, int]:
        """Device -> bytes that every batch leaves behind there."""
        return {device: self.each(device) for device in self._devices}

    def most(self) -> int:
        """The largest of them."""
        return max(self.all().values())

    def searched(self) -> bool:
        """Notes how long all lists are; whether it was done often enough to tell which of them grow with every batch."""
        self._lengths.append({id(one): len(one) for one in _lists()})
        return len(self._lengths) == LOOKS

    def fill(self, rest: Rest) -> dict[str, int]:
        """Fills the lists that grow with what the rest of the pass would put there. Device -> bytes of a batch that were found in them;
        empty where that is little, or more than the machine has for it and what is made of it."""
        found, each, seen = list(self._growing()), Counter[str](), set[int]()
        self._lengths.clear()
        for _, added in found:
            each.update(_bytes(added, seen))
        if sum(each.values()) * rest.batches < LEAST_FILLED or 2 * each["cpu"] * rest.batches > procfs.available_bytes():
            return {}
        for one, added in found:
            one.extend(_of_the_rest(added, rest))
        return dict(each)

    def _growing(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """(list, what a batch added to it): the first of those that were searched, since later ones may be fast-forwarded."""
        ours = _ours()
        for one in (one for one in _lists() if id(one) not in ours):
            lengths = [told.get(id(one), -1) for told in self._lengths]
            more = lengths[-1] - lengths[-2]
            if lengths[0] >= more > 0 and all(b - a == more for a, b in itertools.pairwise(lengths)) and len(one) == lengths[-1]:
                with suppress(_Strange):
                    added = one[lengths[0] - more : lengths[0]]
                    _bytes(added, set())
                    yield one, added


class _Strange(Exception):
    """Something that can't be made once more."""


def _lists() -> Iterator[list[Any]]:
    return (one for one in gc.get_objects() if type(one) is list and one)


def _ours() -> set[int]:
    """Identities of the lists that objects of autofit's have: some are of every batch or step, too."""
    found: set[int] = set()
    within = [one for one in gc.get_objects() if str(type(one).__module__).startswith(_OURS)]
    while within:
        within = [one for one in gc.get_referents(*within) if type(one) in (dict, list, tuple) and id(one) not in found]
        found.update(map(id, within))
    return found


def _of_the_rest(group: Sequence[Any], rest: Rest) -> Iterator[Any]:
    """What one batch added, for each batch that is left."""
    rows = rest.rows
    for number in range(rest.batches):
        made = _made_again(group, {})
        if number < rest.batches - 1 or not 0 < rest.last_rows < rows:
            yield from made
        elif len(group) == rows:
            yield from made[: rest.last_rows]
        else:
            yield from (_shortened(one, rows, rest.last_rows) for one in made)


def _made_again(value: Any, storages: dict[int, Any]) -> Any:
    """With memory of its own; tensors that have theirs together have it so again."""
    if type(value) is dict:
        return {key: _made_again(one, storages) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return _like(value, [_made_again(one, storages) for one in value])
    if _is_plain(value):
        return value
    if not hasattr(value, "untyped_storage"):
        return value.copy()
    import torch

    storage = value.untyped_storage()
    if storage.data_ptr() not in storages:
        storages[storage.data_ptr()] = storage.clone()
    with torch.no_grad():
        empty = torch.empty(0, dtype=value.dtype, device=value.device)
        return empty.set_(storages[storage.data_ptr()], value.storage_offset(), value.size(), value.stride())


def _like(value: Any, within: list[Any]) -> Any:
    """A list or a tuple of the same kind, with a name for each or not."""
    return type(value)(*within) if hasattr(value, "_fields") else type(value)(within)


def _shortened(value: Any, rows: int, to: int) -> Any:
    if type(value) is dict:
        return {key: _shortened(one, rows, to) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return value[:to] if len(value) == rows else _like(value, [_shortened(one, rows, to) for one in value])
    return value[:to] if getattr(value, "shape", ())[:1] == (rows,) else value


def _bytes(value: Any, seen: set[int]) -> Counter[str]:
    """Device -> bytes of all arrays and tensors in nested lists, tuples and dictionaries; memory that is ``seen`` counts no more. Raises
    _Strange."""
    if type(value) is dict or type(value) in (list, tuple) or hasattr(value, "_fields"):
        found: Counter[str] = Counter()
        for one in value.values() if type(value) is dict else value:
            found.update(_bytes(one, seen))
        return found
    if _is_plain(value):
        return Counter()
    if type(value).__name__ == "ndarray":
        return Counter(cpu=int(value.nbytes))
    if type(value).__name__ not in ("Tensor", "Parameter") or value.requires_grad or str(value.layout) != "torch.strided":
        raise _Strange
    storage = value.untyped_storage()
    size = 0 if storage.data_ptr() in seen else int(storage.nbytes())
    seen.add(storage.data_ptr())
    return Counter({value.device.type: size})


def _is_plain(value: Any) -> bool:
    """A number, a text or nothing; numpy's numbers, too."""
    return isinstance(value, (int, float, complex, str, bytes, type(None))) or (
        type(value).__module__ == "numpy" and type(value).__name__ != "ndarray"
    )


def steady_growth(live: Sequence[int]) -> int:
    """Bytes that every batch adds for good: the least of the last steps, 0 unless all of them grow. The first batch warms up."""
    deltas = [after - before for before, after in itertools.pairwise(live[1:])]
    least, most = min(deltas), max(deltas)
    return least if least > 0 and most <= 2 * least else 0


def live_bytes(device: str, *, idle: bool = False) -> int:
    """In use. Of host memory without what the allocator has and may give again, unless ``idle``: it grows once that is used up."""
    if device == "cuda":
        import torch

        return int(torch.cuda.memory_allocated())
    return procfs.data_bytes() - (0 if idle else _free_bytes())


class _Mallinfo2(ctypes.Structure):
    """mallinfo(3): its ten fields are sizes; the ninth is what the allocator has of free blocks."""

    _fields_ = [*((f"_{number}", ctypes.c_size_t) for number in range(8)), ("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]


def _free_bytes() -> int:
    """Of all arenas; 0 where the C library doesn't tell (glibc does since 2.33)."""
    with suppress(AttributeError, OSError):
        told = ctypes.CDLL(None).mallinfo2
        told.restype = _Mallinfo2
        return int(told().fordblks)
    return 0
