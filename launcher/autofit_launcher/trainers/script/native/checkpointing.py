"""Gradient checkpointing for a training script that has no word for it: the script is not changed, and never hears of it.

As ``_autofit_checkpointing.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every process of a command:

    PYTHONPATH=/that/folder CHECKPOINTING=1 python train.py

A model's repeated modules (``stacks``) are found when it is first called. They keep what they are called with, and are computed again
when the backward pass comes to them (``torch.utils.checkpoint``, not reentrant). That is done only where gradients are enabled and the
module trains. The class ``Module`` is patched, never an instance: ``state_dict``, copies and pickles of a model are what they are without
it.

What a module draws from torch's random numbers is drawn again. In the first two calls of each module it is seen that it gives the same the
second time. What can't be the same training raises ``NotExact`` there, with the reason: a module that keeps something of each call
(statistics of a norm, a count, a list), draws from other random numbers or has hooks, and a model that is compiled
(``torch._functorch.config.activation_memory_budget`` is its word for this) or sharded. It needs nothing but torch, and the file
beside it.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .imported import after_import

VARIABLE = "CHECKPOINTING"
LEAST = 3
"""Modules of one class under one parent that are a stack."""
STRICT = 2
"""Calls of each module in which it is seen whether it is the same training."""
NEAR = 1e-4
"""Part of the length of a module's output by which its sum may differ from the first time's. Other random numbers move it by a half."""
CACHES = {"past_key_values": None, "past_key_value": None, "layer_past": None, "use_cache": False}
"""Arguments that a layer of transformers' leaves out where its own switch is on: a cache would be filled twice."""
COMPILED = "it is compiled, and what a compiled model computes again is its own affair: torch._functorch.config.activation_memory_budget"

CHECKPOINTING: Checkpointing | None = None
"""The checkpointing of this process, if there is any; for who watches."""


class NotExact(RuntimeError):
    """The checkpointed training would not be the same. The message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(f"checkpointing from outside can't be exact here: {why}")


class CheckpointedModule:
    """A module that is checkpointed."""

    def __init__(self, name: str, stack: str) -> None:
        """``stack``: the stack to which it belongs, in words."""
        self.name, self.stack, self.calls, self.again = name, stack, 0, 0


class Checkpointing:
    """The checkpointed modules of one process."""

    def __init__(self) -> None:
        self._depth = 0
        """Calls of models within each other."""
        self._blocks: weakref.WeakKeyDictionary[Any, CheckpointedModule] = weakref.WeakKeyDictionary()
        self._looked: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def seen(self) -> bool:
        """True if anything was computed again."""
        return any(block.again for block in self._blocks.values())

    def told(self) -> list[str]:
        """Says what was computed again, stack by stack."""
        if not self._blocks:
            return [f"checkpointing: no modules repeat ({LEAST} or more of one class, of several layers each, under one parent)"]
        again: dict[str, list[int]] = {block.stack: [] for block in self._blocks.values()}
        for block in self._blocks.values():
            again[block.stack] += [block.again] if block.again else []
        return [f"checkpointing: {len(times)} of {stack} computed again, {max(times, default=0)} times" for stack, times in again.items()]

    def install(self, torch: Any) -> None:
        """Patches torch, which has just been imported."""
        plain = torch.nn.Module.__call__

        @functools.wraps(plain)
        def called(this: Any, *args: Any, **kwargs: Any) -> Any:
            block = self._blocks.get(this)
            if (self._depth and block is None) or _is_traced(torch):
                return plain(this, *args, **kwargs)
            if block is None and torch._C._current_graph_task_id() == -1:  # else a part of a model, which is computed again
                self._look(this, torch)
            self._depth += 1
            try:
                if block is None or not (this.training and torch.is_grad_enabled()):
                    return plain(this, *args, **kwargs)
                return _checkpointed(block, this, plain, args, kwargs)
            finally:
                self._depth -= 1

        torch.nn.Module.__call__ = called

    def _look(self, root: Any, torch: Any) -> None:
        """Looks at a model that is called: which of its modules repeat."""
        if root in self._looked or next(root.parameters(), None) is None:
            return
        self._looked.add(root)
        if root.training and torch.is_grad_enabled():
            _refuse_wrapped(root)
        for stack in stacks(root):
            words = f"{len(stack.blocks)} {stack.kind} in {stack.where or type(root).__name__}"
            for name, module in stack.blocks:
                self._blocks.setdefault(module, CheckpointedModule(name, words))


def _checkpointed(block: CheckpointedModule, module: Any, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls the module, and again in the backward pass."""
    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    if hasattr(type(module), "gradient_checkpointing"):  # a layer of transformers', as its own switch would have it
        kwargs = {**kwargs, **{name: off for name, off in CACHES.items() if kwargs.get(name) is not None}}
    block.calls += 1
    strict, seen = block.calls <= STRICT, list[Any]()

    def call(given: Any, *_: Any) -> Any:
        run = functools.partial(plain, module, *given[0], **given[1])
        block.again += bool(seen)
        made = run() if not strict else _seen_again(block.name, run, seen[0]) if seen else _seen_first(block.name, module, run)
        seen[:] = seen or [_figures(made) if strict else None]
        return made

    with set_checkpoint_early_stop(not strict):  # what is to be seen again is its end
        weight = next(module.parameters())  # by which torch knows whose random states it keeps
        return checkpoint(call, (args, kwargs), weight, use_reentrant=False, preserve_rng_state=True)


def _seen_first(name: str, module: Any, run: Callable[[], Any]) -> Any:
    """Calls a module, which must keep nothing of it, and have no hooks; transformers' gather what one forward pass gives."""
    for part in module.modules():
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            if any(not getattr(hook, "__module__", "").startswith("transformers.") for hook in getattr(part, kind).values()):
                raise NotExact(f"{name} has hooks ({type(part).__name__}{kind}), which would act twice")
    before = _kept(module)
    made = run()
    after = _kept(module)
    for place in before.keys() | after.keys():
        one, other = before.get(place, _ABSENT), after.get(place, _ABSENT)
        same = one[0] is other[0] or (type(one[0]) is type(other[0]) is int and one[0] == other[0])
        if not same or one[1] != other[1]:
            kept = f"{type(module.get_submodule(place[0])).__name__}.{place[1]}"
            raise NotExact(f"{name} keeps something of each call ({kept}), and would do so twice")
    return made


def _seen_again(name: str, run: Callable[[], Any], before: Any) -> Any:
    """Calls a module again, which must give what it gave ``before``."""
    made = run()
    figures = _figures(made)
    near = (one[0] == other[0] and not abs(one[1] - other[1]) > NEAR * one[2] for one, other in zip(before, figures, strict=False))
    if len(figures) != len(before) or not all(near):
        why = "random numbers that aren't torch's, a cache, or an input that is changed in place"
        raise NotExact(f"{name} gives something else when it is computed again ({why})")
    return made


def _is_traced(torch: Any) -> bool:
    """Tells whether the call is traced, or by torch.func: nothing of that is checkpointed."""
    return bool(torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._are_functorch_transforms_active())


def _refuse_wrapped(root: Any) -> None:
    for part in root.modules():
        if type(part).__name__ == "OptimizedModule" or getattr(part, "_compiled_call_impl", None) is not None:
            raise NotExact(COMPILED)
        if type(part).__name__ == "FullyShardedDataParallel":
            raise NotExact("its modules are sharded (FSDP), and would be gathered twice: torch's own checkpoint_wrapper goes inside")


_ABSENT = (None, -1)


def _kept(module: Any) -> dict[tuple[str, str], tuple[Any, int]]:
    """Returns what a call may change in a module: (module within it, attribute or buffer) -> that, and what tells of changes in place."""
    own = ("_parameters", "_buffers", "_modules", "training")
    return {
        (name, key): (value, len(value) if isinstance(value, (dict, list, set)) else getattr(value, "_version", 0))
        for name, part in module.named_modules()
        for key, value in {**vars(part), **part._buffers}.items()
        if key not in own
    }


def _figures(made: Any) -> list[tuple[Any, float, float]]:
    """Returns (shape, sum, length) of each tensor of numbers that a module gives."""
    import torch
    from torch.utils._pytree import tree_leaves

    found = []
    for one in tree_leaves(made):
        if isinstance(one, torch.Tensor) and one.is_floating_point() and one.layout == torch.strided and not one.is_nested:
            value, kind = one.detach(), torch.float32 if one.itemsize < 4 else None
            found.append((one.shape, value.sum(dtype=kind).item(), torch.linalg.vector_norm(value, dtype=kind).item()))
    return found


# ---- modules that repeat


class Stack(NamedTuple):
    """Modules of one class, in their order."""

    where: str
    """Name of their parent, or of the list that holds them."""
    kind: str
    blocks: list[tuple[str, Any]]
    """Pairs (name, module)."""


def stacks(root: Any, name: str = "") -> list[Stack]:
    """Finds the stacks of ``root``. Of stacks within each other the inner one counts if it has most of a module's weights: the smaller what
    is computed again at once, the less memory that needs. A module that stands in several places counts once, at its first."""
    import torch

    groups: dict[tuple[str, type], dict[int, tuple[str, Any]]] = {}
    for where, called, module in _members(root, name):
        groups.setdefault((where, type(module)), {}).setdefault(id(module), (called, module))
    found = []
    for (where, kind), members in groups.items():
        blocks = []
        for called, module in members.values():
            inner = stacks(module, called)
            within = sum(_weights(block) for one in inner for _, block in one.blocks)
            if len(members) >= LEAST and _is_block(module, torch) and 2 * within < _weights(module):
                blocks.append((called, module))
            else:
                found += inner
        if blocks:
            found.append(Stack(where, kind.__name__, blocks))
    return found


def _members(parent: Any, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yields (where it stands, its name, the module): a parent's children, and those in lists of it, which aren't called themselves."""
    import torch

    for key, child in parent.named_children():
        called = f"{name}.{key}" if name else key
        if isinstance(child, torch.nn.ModuleList):
            yield from ((called, *rest) for _, *rest in _members(child, called))
        else:
            yield name, called, child


def _is_block(module: Any, torch: Any) -> bool:
    """Tells whether a module is made of others, so that it holds more than it is given; a recurrent one does, too."""
    made = next(module.children(), None) is not None or isinstance(module, torch.nn.RNNBase)
    return made and next(module.parameters(), None) is not None and not isinstance(module, torch.jit.ScriptModule)


def _weights(module: Any) -> int:
    return sum(one.numel() for one in module.parameters())


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    global CHECKPOINTING
    if os.environ.get(VARIABLE):
        CHECKPOINTING = Checkpointing()
        after_import({"torch": CHECKPOINTING.install})
