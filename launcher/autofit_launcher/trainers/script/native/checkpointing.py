"""Gradient checkpointing for a training script that has no word for it: the script is not changed, and never hears of it.

As ``_autofit_checkpointing.py`` beside a ``sitecustomize.py`` that loads it, in a folder of their own, for every process of a command:

    PYTHONPATH=/that/folder CHECKPOINTING=1 python train.py

A model's repeated modules (``repeated``) are found when it is first called. They keep what they are called with, and are computed again
when the backward pass comes to them (``torch.utils.checkpoint``, not reentrant). That is done only where gradients are enabled and the
module trains. The class ``Module`` is patched, never an instance: ``state_dict``, copies and pickles of a model are what they are without
it.

What a module draws from torch's random numbers is drawn again. In the first two calls of each module it is seen that it gives the same the
second time. What can't be the same training raises ``NotExact`` there, with the reason: a module that keeps something of each call
(statistics of a norm, a count, a list), draws from other random numbers or has hooks, and a model that is compiled
(``torch._functorch.config.activation_memory_budget`` is its word for this) or sharded. It needs nothing but torch, and the files
beside it.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

from .imported import after_import
from .repeated import LEAST, stacks

VARIABLE = "CHECKPOINTING"
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
    """A module that is checkpointed, with what is known of it."""

    def __init__(self, name: str, module: Any, stack: str) -> None:
        """``stack``: the stack to which it belongs, in words."""
        self.name, self.stack, self.calls, self.again = name, stack, 0, 0
        self.module: weakref.ref[Any] = weakref.ref(module)


class Checkpointing:
    """The checkpointed modules of one process."""

    def __init__(self) -> None:
        self._depth = 0
        """Calls of models within each other."""
        self._blocks: dict[int, CheckpointedModule] = {}
        """Modules by identity: some hash by what they hold."""
        self._looked: dict[int, weakref.ref[Any]] = {}

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
        torch.nn.Module.__call__ = self._called(torch.nn.Module.__call__, torch)

    # -- which modules

    def _look(self, root: Any, torch: Any) -> None:
        """Looks at a model that is called: which of its modules repeat."""
        known = self._looked.get(id(root))
        if (known is not None and known() is root) or next(root.parameters(), None) is None:
            return
        self._looked[id(root)] = weakref.ref(root)
        if root.training and torch.is_grad_enabled():
            _refuse_wrapped(root)
        for stack in stacks(root):
            words = f"{len(stack.blocks)} {stack.kind} in {stack.where or type(root).__name__}"
            for name, module in stack.blocks:
                if self._block(module) is None:
                    self._blocks[id(module)] = CheckpointedModule(name, module, words)

    def _block(self, module: Any) -> CheckpointedModule | None:
        block = self._blocks.get(id(module))
        return block if block is not None and block.module() is module else None

    # -- their calls

    def _called(self, plain: Callable[..., Any], torch: Any) -> Callable[..., Any]:
        @functools.wraps(plain)
        def called(this: Any, *args: Any, **kwargs: Any) -> Any:
            block = self._block(this)
            if (self._depth and block is None) or _is_traced(torch):
                return plain(this, *args, **kwargs)
            if block is None and torch._C._current_graph_task_id() == -1:  # else a part of a model, which is computed again
                self._look(this, torch)
            self._depth += 1
            try:
                if block is None or not (this.training and torch.is_grad_enabled()):
                    return plain(this, *args, **kwargs)
                return self._checkpointed(block, functools.partial(plain, this), args, kwargs)
            finally:
                self._depth -= 1

        return called

    def _checkpointed(self, block: CheckpointedModule, plain: functools.partial[Any], args: Any, kwargs: Any) -> Any:
        from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

        module = plain.args[0]
        if hasattr(type(module), "gradient_checkpointing"):  # a layer of transformers', as its own switch would have it
            kwargs = {**kwargs, **{name: off for name, off in CACHES.items() if kwargs.get(name) is not None}}
        block.calls += 1
        with set_checkpoint_early_stop(block.calls > STRICT):  # what is to be seen again is its end
            call, weight = _Call(block, plain), next(module.parameters())  # by which torch knows whose random states it keeps
            return checkpoint(call, (args, kwargs), weight, use_reentrant=False, preserve_rng_state=True)


class _Call:
    """A call of a module, made when it comes and again in the backward pass."""

    def __init__(self, block: CheckpointedModule, plain: functools.partial[Any]) -> None:
        self._block, self._plain = block, plain
        self._strict, self._made = block.calls <= STRICT, False
        self._figures: list[Any] = []

    def __call__(self, given: Any, *_: Any) -> Any:
        args, kwargs = given
        made, self._made = self._made, True
        self._block.again += made
        if not self._strict:
            return self._plain(*args, **kwargs)
        return self._seen_again(args, kwargs) if made else self._seen_first(args, kwargs)

    def _seen_first(self, args: Any, kwargs: Any) -> Any:
        module = self._plain.args[0]
        _refuse_hooks(self._block.name, module)
        before = _kept(module)
        made = self._plain(*args, **kwargs)
        after = _kept(module)
        for place in before.keys() | after.keys():
            if not _unchanged(before.get(place, _ABSENT), after.get(place, _ABSENT)):
                kept = f"{type(module.get_submodule(place[0])).__name__}.{place[1]}"
                raise NotExact(f"{self._block.name} keeps something of each call ({kept}), and would do so twice")
        self._figures = _figures(made)
        return made

    def _seen_again(self, args: Any, kwargs: Any) -> Any:
        said = f"{self._block.name} gives something else when it is computed again"
        try:
            made = self._plain(*args, **kwargs)
        except Exception as error:
            if "memory" in str(error).lower() or isinstance(error, MemoryError):
                raise
            raise NotExact(f"{said}: {type(error).__name__}: {str(error)[:200]}") from error
        figures = _figures(made)
        if len(figures) != len(self._figures) or not all(map(_near, self._figures, figures)):
            raise NotExact(f"{said} (random numbers that aren't torch's, a cache, or an input that is changed in place)")
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


def _refuse_hooks(name: str, module: Any) -> None:
    """Refuses hooks, which would act twice. Those of transformers' gather what one forward pass gives, and do nothing later."""
    for part in module.modules():
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            hooks = [hook for hook in getattr(part, kind).values() if not getattr(hook, "__module__", "").startswith("transformers.")]
            if hooks:
                raise NotExact(f"{name} has hooks ({type(part).__name__}{kind}), which would act twice")


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


def _unchanged(one: tuple[Any, int], other: tuple[Any, int]) -> bool:
    same = one[0] is other[0] or (type(one[0]) is type(other[0]) is int and one[0] == other[0])
    return same and one[1] == other[1]


def _figures(made: Any) -> list[tuple[Any, Any, Any]]:
    """Returns (shape, sum, length) of each tensor of numbers that a module gives."""
    import torch
    from torch.utils._pytree import tree_leaves

    with torch.no_grad():
        return [_of_tensor(one, torch) for one in tree_leaves(made) if isinstance(one, torch.Tensor) and _is_plain(one, torch)]


def _is_plain(tensor: Any, torch: Any) -> bool:
    return tensor.layout == torch.strided and not tensor.is_nested and (tensor.is_floating_point() or tensor.is_complex())


def _of_tensor(tensor: Any, torch: Any) -> tuple[Any, Any, Any]:
    kind = torch.float32 if tensor.itemsize < 4 else None
    return tuple(tensor.shape), tensor.sum(dtype=kind), torch.linalg.vector_norm(tensor, dtype=kind)


def _near(one: Any, other: Any) -> bool:
    return bool(one[0] == other[0] and not ((one[1] - other[1]).abs() > NEAR * one[2]).item())


def begin() -> None:
    """Begins in this process: the sitecustomize that has loaded this file calls it before the program begins."""
    global CHECKPOINTING
    if os.environ.get(VARIABLE):
        CHECKPOINTING = Checkpointing()
        after_import({"torch": CHECKPOINTING.install})
