"""Each optimizer step of a twin: its gradients as they were before clipping, its settings; held against the first twin's at the end.

What is written down: ``twin.json`` (replaced whole at every step) and, by the first twin, ``gradients-OPTIMIZER-STEP.pt``: of
several ranks by rank 0, against which the others hold theirs, too.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import still, zero
from .between import Between
from .first import First
from .group import Group
from .rows import Rows, digest
from .still import AtRest
from .told import MOST_STEPS, RESULT, STEPS_HELD, Told

MOST_VALUES = 2**18
"""Values of one parameter's gradient that are held against another twin's, evenly spread."""
LEAST_VALUES = 16
"""Of a weight of which copies are looked for."""


class Updates:
    """What one process does to its weights."""

    def __init__(self, told: Told, place: Path, rows: Rows, rest: AtRest) -> None:
        self._told, self._place, self._rows, self._rest = told, place, rows, rest
        self._first = First(told.against)
        self._group = Group(place.parent)
        self._made: list[Any] = []
        self._given: dict[int, list[Any]] = {}
        """What each was made with, by its identity."""
        self._schedules: list[Any] = []
        self._clipped: dict[int, Any] = {}
        self._depth = self._calls = 0
        self.backwards = 0
        self.steps: list[dict[str, Any]] = []
        self._counts: dict[int, int] = {}
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those that have been called."""
        self.facts: dict[str, Any] = {}
        self._began = 0.0
        self._between = Between(_values)
        self._ended = False
        self._owner = os.getpid()

    # -- installing

    def install(self) -> None:
        """Patches torch, which has just been imported."""
        import torch
        from torch.optim import optimizer

        self._backward(torch)
        self._clipping(torch)
        self._model(torch)
        self._made_later(torch)
        for kind, made in ((optimizer.Optimizer, self._optimizer_made), (torch.optim.lr_scheduler.LRScheduler, self._schedules.append)):
            kind.__init__ = _noted(kind.__init__, made)
        optimizer.register_optimizer_step_pre_hook(self._before)
        optimizer.register_optimizer_step_post_hook(self._after)

    def of_engine(self, module: Any) -> None:
        """Patches DeepSpeed's engine, which has just been imported."""
        zero.install(module, self._look, self._stepped)

    def _optimizer_made(self, optimizer: Any) -> None:
        self._made.append(optimizer)
        self._given[id(optimizer)] = _parameters(optimizer)

    def _is_zero(self, optimizer: Any) -> bool:
        return any(map(zero.is_part, self._given.get(id(optimizer), ())))

    def _of(self, optimizer: Any) -> list[Any]:
        """The weights that it trains."""
        return self._given[id(optimizer)] if self._is_zero(optimizer) else _parameters(optimizer)

    def _backward(self, torch: Any) -> None:
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def counted(*args: Any, **kwargs: Any) -> None:
            if not self._depth:
                self._begins_backward()
            self._depth += 1
            try:
                backward(*args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth and not self.steps and self._told.same_row and not any(map(self._is_zero, self._made)):
                self._between.added(self._trained)

        torch.autograd.backward = counted

    @property
    def _trained(self) -> list[Any]:
        """Parameters of all optimizers, each once."""
        return list({id(one): one for optimizer in self._made for one in self._of(optimizer)}.values())

    def _begins_backward(self) -> None:
        if not self.backwards:
            self._between.begins(self._trained)
        self.backwards += 1
        self._rows.backward()

    def _clipping(self, torch: Any) -> None:
        place = torch.nn.utils.clip_grad
        for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"):
            if hasattr(place, name):
                clipped = self._remembered(getattr(place, name))
                for module in (place, torch.nn.utils):
                    setattr(module, name, clipped)

    def _remembered(self, clip: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        @functools.wraps(clip)
        def clipped(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            for one in parameters:
                if one.grad is not None and id(one) not in self._clipped:
                    self._clipped[id(one)] = _values(one.grad)
            return clip(parameters, *args, **kwargs)

        return clipped

    def _model(self, torch: Any) -> None:
        """The outermost calls of modules, whose inputs are the rows where no loader gives any."""
        module = torch.nn.Module
        call = module.__call__

        @functools.wraps(call)
        def called(this: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._calls and next(this.parameters(), None) is not None:
                args, kwargs = self._widened(this, args, kwargs)
                if this.training:
                    self._rows.model_called(args, kwargs)
            self._calls += 1
            try:
                return call(this, *args, **kwargs)
            finally:
                self._calls -= 1

        module.__call__ = called

    def _made_later(self, torch: Any) -> None:
        """A model that is made after a batch was looked at (``next(iter(loader))``): its weights are drawn, and are no constants."""
        register = torch.nn.Module.register_parameter

        @functools.wraps(register)
        def registered(this: Any, name: str, param: Any) -> None:
            if param is not None and not self.backwards:
                self._rest.leave()
            register(this, name, param)

        torch.nn.Module.register_parameter = registered

    def _widened(self, module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Half precision all through is turned to single when a model is first called; its parameters stay the objects that they are."""
        if self._told.single and module not in self._models and not any(map(zero.is_part, module.parameters())):
            self._models.add(module)
            if still.widen(module):
                self.facts["widened"] = True
        return still.wide((args, kwargs)) if "widened" in self.facts else (args, kwargs)

    # -- steps

    def _before(self, optimizer: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self._is_zero(optimizer):
            return None
        closure = next((one for one in args[1:] if callable(one)), kwargs.get("closure"))
        if closure is None:
            self._look(optimizer)
            return None

        def looked(*inner: Any, **named: Any) -> Any:
            loss = closure(*inner, **named)
            self._look(optimizer)
            return loss

        if kwargs.get("closure") is closure:
            return args, {**kwargs, "closure": looked}
        return tuple(looked if one is closure else one for one in args), kwargs

    def _look(self, optimizer: Any) -> None:
        """The gradients that the step is made of."""
        self._group.look()
        number = self._number(optimizer)
        count = self._counts.get(number, 0)
        step: dict[str, Any] = {
            "optimizer": number, "kind": type(optimizer).__name__, "rows": self._rows.seen, "backwards": self.backwards,
            "settings": _settings(optimizer), "scheduled": [getattr(one, "last_epoch", 0) for one in self._schedules],
            "passes": sum(self._rows.passes.get(one, 0) for one in self._rows.trained),
        }  # fmt: skip
        if count < STEPS_HELD:
            trained = self._of(optimizer)
            gradients = [self._clipped.get(id(one), _gradient(one)) for one in trained]
            if not count:
                step["weights"] = _weights(trained)
                step["epsilon"] = max((_epsilon(one) for one in trained), default=0.0)
                step |= {"strayed": self._between.strayed(trained), "uneven": self._between.uneven}
            step |= self._held(gradients, f"gradients-{number}-{count}.pt")
        self._clipped.clear()
        self._counts[number] = count + 1
        self.steps.append(step)

    def _number(self, optimizer: Any) -> int:
        """As they were made."""
        return next((at for at, one in enumerate(self._made) if one is optimizer), len(self._made))

    def _beside(self) -> float:
        """How far what is kept of the weights beside them (a moving average) lies from the first twin's, in parts of its distance to the
        weights; 0 where there is nothing of the kind, or it can't be told which is which."""
        import torch

        found, path = _copies([one for one in self._made if not self._is_zero(one)]), self._place / "gradients-beside.pt"
        if self._group.rank:
            return 0.0
        if not self._first:
            _save(found, path)
            return 0.0
        if (there := self._first.file(path.name)) is None:
            return 0.0
        first = torch.load(there, weights_only=True)
        if [kept.shape for kept, _ in first] != [kept.shape for kept, _ in found]:
            return 0.0
        return max((_part(_square(a - b), _square(a - near)) for (a, near), (b, _) in zip(first, found, strict=True)), default=0.0)

    def _held(self, gradients: list[Any], name: str) -> dict[str, Any]:
        """Written down by the first twin; held against them by the others, and by its own other ranks."""
        import torch

        first = self._first or First(str(self._place.parent) if self._group.rank else "")
        if not first:
            _save(gradients, self._place / name)
            return {}
        if (there := first.file(name)) is None:
            return {}
        return {"against": figures(torch.load(there, weights_only=True), gradients)}

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._is_zero(optimizer):
            self._stepped(optimizer)

    def _stepped(self, optimizer: Any) -> None:
        if os.getpid() != self._owner:
            return
        if self._counts.get(self._number(optimizer)) == STEPS_HELD and "beside" not in self.facts:
            with contextlib.suppress(Exception):  # what others' objects do when they are looked at can't be known
                self.facts["beside"] = self._beside()
        self._began = self._began or time.monotonic()
        self.write("steps")
        least = min(self._counts.values())
        if least < STEPS_HELD and len(self._counts) < len(self._made):
            least = max(self._counts.values()) // 4  # one that never steps
        late = time.monotonic() - self._began > self._told.seconds
        wish = least >= STEPS_HELD and (late or max(self._counts.values()) >= MOST_STEPS)
        if self._group.agree(len(self.steps), wish):
            self.leave("limit")

    # -- the end

    def at_exit(self) -> None:
        """The script has come to an end of its own."""
        if os.getpid() != self._owner or self._ended:
            return
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and not isinstance(error, SystemExit):
            self.facts["failure"] = f"{type(error).__name__}: {error}"[:500]
            self.write("failed")
        else:
            self.write("exit")

    def leave(self, how: str) -> None:
        """Ends the process at once; what the script would have done next is of no interest."""
        self.write(how)
        self._ended = True
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    def write(self, ended: str) -> None:
        rows = self._rows
        said = {
            "ended": ended, "steps": self.steps, "backwards": self.backwards, "optimizers": len(self._made), **self.facts,
            "rank": self._group.rank, "size": self._group.size,
            "trained": sorted(rows.trained), "rows": {str(one): rows.drawn[one] for one in sorted(rows.trained) if one in rows.drawn},
            "inputs": rows.inputs, "sites": rows.sites, "counts": rows.counts, "whole": rows.whole, "passes": rows.passes,
            "ragged": bool(rows.ragged & rows.trained), "mixed": self._rest.mixed,
            "sharing": max((rows.sharing[one] for one in rows.trained if one in rows.sharing), default=0),
        }  # fmt: skip
        path = self._place / RESULT
        path.with_suffix(".new").write_text(json.dumps(said), encoding="utf-8")
        path.with_suffix(".new").replace(path)


def _noted(make: Callable[..., None], made: Callable[[Any], None]) -> Callable[..., None]:
    @functools.wraps(make)
    def noted(this: Any, *args: Any, **kwargs: Any) -> None:
        make(this, *args, **kwargs)
        made(this)

    return noted


def _save(value: Any, path: Path) -> None:
    """Whole or not at all: another twin waits for it."""
    import torch

    torch.save(value, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def _copies(optimizers: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(what has the shape of a weight and is none, the weight that it is nearest to): no gradient and no state of an optimizer."""
    import torch

    weights = [one for optimizer in optimizers for one in _parameters(optimizer) if one.numel() >= LEAST_VALUES]
    known = {id(one) for optimizer in optimizers for one in (*_parameters(optimizer), *(one.grad for one in _parameters(optimizer)))}
    known |= {id(value) for optimizer in optimizers for state in optimizer.state.values() for value in state.values()}
    shapes = {tuple(one.shape) for one in weights}
    kept = [
        one for one in gc.get_objects()
        if type(one) in (torch.Tensor, torch.nn.Parameter) and id(one) not in known and tuple(one.shape) in shapes
        and one.grad_fn is None and one.is_floating_point()
    ]  # fmt: skip
    values = {id(one): _values(one) for one in weights}
    found = []
    for one in kept:
        own = _values(one)
        near = min((values[id(other)] for other in weights if other.shape == one.shape), key=lambda other: _square(own - other))
        if _square(own - near) < _square(own) / 4:  # it is of the weights, and not of the data
            found.append((own, near))
    return found


def _square(values: Any) -> float:
    return float((values.double() ** 2).sum())


def figures(first: Sequence[Any], other: Sequence[Any]) -> dict[str, Any]:
    """How the other's gradients lie to the first's: ``apart`` (relative distance), ``factor`` (the best g = c g1), ``rest`` (what is left
    after it) and both lengths."""
    if len(first) != len(other):
        return {"mismatch": f"{len(other)} parameters instead of {len(first)}"}
    own = product = length = distance = 0.0
    pairs = [(_zero_like(a, b), _zero_like(b, a)) for a, b in zip(first, other, strict=True) if a is not None or b is not None]
    if any(a.shape != b.shape for a, b in pairs):
        return {"mismatch": "parameters of other shapes"}
    for a, b in _doubles(pairs):
        own, length = own + float(a @ a), length + float(b @ b)
        product, distance = product + float(a @ b), distance + float((b - a) @ (b - a))
    factor = product / own if own else 0.0
    rest = sum(float((b - factor * a) @ (b - factor * a)) for a, b in _doubles(pairs))
    return {
        "apart": _part(distance, own), "factor": factor, "rest": _part(rest, length), "length": length**0.5, "length_first": own**0.5,
    }  # fmt: skip


def _part(square: float, whole: float) -> float:
    return (square / whole) ** 0.5 if whole else (0.0 if not square else float(10**6))


def _zero_like(one: Any, other: Any) -> Any:
    return one if one is not None else other.new_zeros(other.shape)


def _doubles(pairs: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    return ((a.double(), b.double()) for a, b in pairs)


def _values(gradient: Any) -> Any:
    """A copy of (a part of) a gradient in single precision. Of one that ranks share the whole, for which they all come here."""
    if gradient is None:
        return None
    gradient = zero.weight(gradient) if zero.is_part(gradient) else gradient
    whole = gradient.detach().full_tensor() if hasattr(gradient, "full_tensor") else gradient.detach().to_dense()
    flat = whole.reshape(-1)
    stride = max(-(-flat.numel() // MOST_VALUES), 1)
    return flat[::stride].to("cpu").float().clone()


def _gradient(parameter: Any) -> Any:
    return _values(zero.gradient(parameter) if zero.is_part(parameter) else parameter.grad)


def _parameters(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _epsilon(parameter: Any) -> float:
    import torch

    return float(torch.finfo(parameter.dtype).eps) if parameter.is_floating_point() else 0.0


def _weights(parameters: Sequence[Any]) -> str:
    found = hashlib.sha1(usedforsecurity=False)
    for one in parameters:
        found.update(digest(_values(one)).encode())
    return found.hexdigest()[:12]


def _settings(optimizer: Any) -> list[dict[str, float]]:
    """The numbers of each of its groups: learning rate, weight decay, momentum."""
    kept = []
    for group in optimizer.param_groups:
        plain = {key: value.item() if hasattr(value, "item") else value for key, value in group.items() if key not in ("params", "step")}
        numbers = {key: value for key, value in plain.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
        pairs = {f"{key}.{at}": one for key, value in plain.items() if isinstance(value, tuple) for at, one in enumerate(value)}
        kept.append({key: float(value) for key, value in {**numbers, **pairs}.items() if isinstance(value, (int, float))})
    return kept
