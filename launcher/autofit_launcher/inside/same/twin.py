"""Watches a twin in its own process: each optimizer step's gradients before clipping, its settings and its rows, and what else moves.

The records get ``PID/twin.json`` (replaced whole at every step) and, by the first twin, tensors that the other holds
its own against: ``RANK-gradients-OPTIMIZER-STEP.pt``, ``RANK-beside.pt``.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..after_import import after_import
from ..part import end_soon
from ..patches import at_an_optimizer
from . import rest as at_rest
from .rest import Rest
from .rows import Rows, TwinOrders, digest

STEPS_HELD = 3
"""Optimizer steps whose gradients are compared: clearing, first moments and schedules show in the second and the third."""
MOST_STEPS = 4000
"""Steps after which a twin that has no end of its own in sight is ended; of several ranks, which end at one step, ``MOST_OF_RANKS``."""
MOST_OF_RANKS = 24
MOST_S = 20.0
"""Seconds after the first step in which an end of its own is waited for."""
ROUNDS = 1e-5
"""Distance of one parameter's gradients, in parts of all gradients' length, that may be rounding (4e-7 on CPUs, 3e-6 on an H200)."""
MOST_VALUES = 2**18
"""Values of one tensor that are held against another twin's, evenly spread."""
MOVED = 0.05
"""Part of itself by which a weight is moved at most before the first step; of a usual first value where all of its tensor are zero."""


def install(said: Mapping[str, Any], records: Path) -> None:
    """Installs the watch, with torch there. ``said``: ``TwinOrders`` as a dictionary."""
    gc.freeze()  # what libraries have made isn't looked through for what its program makes
    told, rest = TwinOrders(**said), Rest()
    rows = Rows(rest, told)
    twin = Updates(told, records, rows, rest)
    at_rest.install(rest, lambda: twin.facts.update(batch_norm=True))
    rows.install()
    twin.install()
    after_import({"ultralytics.utils.tal": at_rest.targets_count})
    atexit.register(twin.at_exit)


class Updates:
    """Watches what one process does to its weights."""

    def __init__(self, told: TwinOrders, records: Path, rows: Rows, rest: Rest) -> None:
        self._told, self._records, self._rows, self._rest = told, records, rows, rest
        self._made: list[Any] = []
        self._given: list[Any] = []
        """The weights that optimizers were made with."""
        self._clipped: dict[int, Any] = {}
        self._begun: dict[int, tuple[Any, Any]] = {}
        """Identity of a tensor that was there at the first backward pass -> it, and its values then; of what isn't trained those before
        the model was called."""
        self._unmoved: list[Any] = []
        """Optimizers whose weights weren't moved yet."""
        self._drawn: dict[int, Any] = {}
        """Identity of a weight that was moved -> its values before."""
        self._counts: dict[int, int] = {}
        self._depth = self._backwards = 0
        self._fresh, self._widened = True, False
        """True: no model was called since the last backward pass; weights of half precision were turned to single."""
        self._began, self._owner = 0.0, os.getpid()
        self.steps: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {"rank": 0, "size": 1, "steps": self.steps}
        """Facts that are written down; rank and number of ranks are those at the last step: a script may leave its group before its end."""

    # -- installing

    def install(self) -> None:
        """Patches torch."""
        import torch
        from torch.optim import optimizer

        backward, place = torch.autograd.backward, torch.nn.utils

        @functools.wraps(backward)
        def counted(*args: Any, **kwargs: Any) -> None:
            if not self._depth:
                self._begins_backward()
            self._depth += 1
            try:
                backward(*args, **kwargs)
            finally:
                self._depth -= 1

        torch.autograd.backward = counted
        for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"):
            if hasattr(place, name):
                clipped = self._remembered(getattr(place, name))
                for module in (place, place.clip_grad):
                    setattr(module, name, clipped)
        torch.nn.modules.module.register_module_forward_pre_hook(self._called)
        at_an_optimizer(self._optimizer_made)
        optimizer.register_optimizer_step_pre_hook(self._before)
        optimizer.register_optimizer_step_post_hook(lambda optimizer, *_: self._stepped())

    def _optimizer_made(self, optimizer: Any) -> None:
        self._made.append(optimizer)
        self._unmoved.append(optimizer)
        self._rest.ready = True
        self._given += _parameters(optimizer)

    @property
    def _trained(self) -> list[Any]:
        """Parameters of all optimizers, each once."""
        return list({id(one): one for optimizer in self._made for one in _parameters(optimizer)}.values())

    def _move(self) -> None:
        """Moves each weight that is trained a little, once and at random: what is 0 only because nothing is learnt yet (a model's distance
        from its reference, what lies behind a LoRA's zeros) would hide what else the loss does. Signs and single zeros stay."""
        import torch

        drawn = torch.rand(MOST_VALUES, generator=torch.Generator().manual_seed(0), dtype=torch.float32, device="cpu")
        moves = MOVED * (2 * drawn - 1)
        for one in (one for optimizer in self._unmoved for one in _parameters(optimizer)):
            if id(one) in self._drawn or not (one.requires_grad and one.is_floating_point() and one.numel() and _is_there(one)):
                continue
            self._drawn[id(one)], local = _values(one), one.data.to_local() if hasattr(one, "to_local") else one.data
            flat, usual = local.reshape(-1), None if local.any() else (len(one) / one.numel()) ** 0.5 if one.ndim > 1 else 1.0
            for part in flat.split(MOST_VALUES):
                part.add_(moves[: len(part)].to(part) * (part if usual is None else usual))
            if flat.data_ptr() != local.data_ptr():
                local.copy_(flat.view(local.shape))
        self._unmoved.clear()

    def _begin(self, *tensors: Any) -> None:
        self._begun = {id(one): (one, _values(one)) for one in tensors} | self._begun

    def _begins_backward(self) -> None:
        if not self._backwards:
            self._begin(*self._trained, *self._others())
        self._backwards += 1
        self._fresh = True
        self._rows.backward()

    def _remembered(self, clip: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(clip)
        def remembering(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            parameters = [parameters] if hasattr(parameters, "grad") else list(parameters)
            for one in parameters:
                if one.grad is not None:
                    self._clipped.setdefault(id(one), _values(one.grad))
            return clip(parameters, *args, **kwargs)

        return remembering

    def _called(self, module: Any, args: Any) -> Any:
        """Turns a model of half precision into single before it is called; its parameters stay the objects that they are."""
        import torch

        if self._unmoved and not self._backwards:
            self._move()
        if not self._fresh or not torch.is_grad_enabled() or next(module.parameters(), None) is None:
            return None
        self._fresh = False
        if not self._backwards:
            self._begin(*self._others())  # a memory may move as the model is called, or its loss
        if module.training:
            self._rows.model_called(args)
        if any(map(_is_half, module.parameters())):
            module.float()
            self._widened = True
        if not self._widened:
            return None
        return tuple(one.float() if isinstance(one, torch.Tensor) and _is_half(one) else one for one in args)

    # -- steps

    def _before(self, optimizer: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        closure = next((one for one in args[1:] if callable(one)), kwargs.get("closure"))
        if closure is None:
            self._look(optimizer)
            return None

        def looked(*inner: Any, **named: Any) -> Any:
            loss = closure(*inner, **named)
            self._look(optimizer)
            return loss

        return tuple(looked if one is closure else one for one in args), {
            name: looked if one is closure else one for name, one in kwargs.items()
        }

    def _look(self, optimizer: Any) -> None:
        """Looks at the gradients that the step is made of."""
        import torch

        if why := self._unseen(optimizer) or self._rows.unseen:
            self.facts["why"] = why
            self._ends("failed")
        dist = torch.distributed
        if dist.is_available() and dist.is_initialized():
            self.facts |= {"rank": dist.get_rank(), "size": dist.get_world_size()}
        number = next((at for at, one in enumerate(self._made) if one is optimizer), len(self._made))
        count, trained = self._counts.get(number, 0), _parameters(optimizer)
        step: dict[str, Any] = {"optimizer": number, "rows": len(self._rows.digests), "settings": _settings(optimizer)}
        if count < STEPS_HELD:
            schedules = _alive(torch.optim.lr_scheduler.LRScheduler)
            gradients = [self._clipped.get(id(one), _values(one.grad)) for one in trained]
            first = self._first(f"gradients-{number}-{count}", gradients)
            step["against"] = against = figures(first, gradients) if first is not None else None
            if against and against.get("alone"):
                against["name"] = _name(trained[against.pop("at")])
            step["scheduled"] = max((one.last_epoch for one in schedules), default=0)
        if not count:
            begun = [self._begun.get(id(one), (one, None))[1] for one in trained]
            step |= {"weights": digest(begun), "strayed": figures(begun, [_values(one) for one in trained]).get("apart", 0.0)}
        if count == STEPS_HELD - 1 and "beside" not in self.facts:
            self.facts["beside"] = self._beside()
        self._clipped.clear()
        self._counts[number] = count + 1
        self.steps.append(step)

    def _unseen(self, optimizer: Any) -> str:
        """Says why the optimizer's gradients show nothing; empty if they do."""
        if any(hasattr(one, "ds_id") or hasattr(one, "_hp_mapping") for one in self._given):
            return "DeepSpeed's ZeRO has taken its weights apart, and steps parts of them"
        half = any(map(_is_half, _parameters(optimizer)))
        return "its weights are of half precision, whose rounding hides a difference" if half else ""

    def _first(self, name: str, own: Any) -> Any:
        """Writes something down in the first twin, and returns nothing; in the other it returns what the first wrote."""
        import torch

        if not self._told.against:
            torch.save(own, self._records / f"{self.facts['rank']}-{name}.pt")
            return None
        there = Path(self._told.against, f"{self.facts['rank']}-{name}.pt")
        return torch.load(there, weights_only=True) if there.exists() else None

    def _others(self) -> list[Any]:
        """Returns what isn't trained and might move: tensors of the shapes of weights, and those of modules; no gradient, no state of an
        optimizer, and no part of the flat memory by which DDP exchanges gradients."""
        import torch

        known = {id(one) for weight in self._trained for one in (weight, weight.grad)}
        known |= {id(value) for optimizer in self._made for state in optimizer.state.values() for value in state.values()}
        shapes = {one.shape for one in self._trained}
        of_modules = [one for module in _alive(torch.nn.Module) for one in (*module._buffers.values(), *module._parameters.values())]
        flat = bool(_alive(torch.nn.parallel.DistributedDataParallel))
        tensors = [
            *of_modules,
            *(one for one in _alive(torch.Tensor) if one.shape in shapes and not (flat and one.untyped_storage().nbytes() > one.nbytes)),
        ]
        return [
            one for one in {id(one): one for one in tensors if one is not None and id(one) not in known}.values()
            if one.grad_fn is None and one.is_floating_point() and one.numel() >= 16 and _is_there(one)  # not a count
        ]  # fmt: skip

    def _beside(self) -> float:
        """Returns how far what has moved beside the weights (an average of them, a memory bank) has moved otherwise than in the first twin,
        in parts of its way there; 0 where nothing has. What began as a weight follows it: Adam steps a weight as far whose gradient is
        rounding alone, and each twin's goes its own way."""
        others, weights = self._ways(self._others()), self._ways(self._trained)
        asked, followed = self._first("beside", (others, {begun: weights.get(begun, []) for begun in others})) or ({}, {})
        far = (_farthest(one, others.get(begun)) - 2 * _farthest(followed[begun], weights.get(begun)) for begun, one in asked.items())
        return max(far, default=0.0)

    def _ways(self, tensors: list[Any]) -> dict[str, list[tuple[Any, float]]]:
        """Digest of first values, before weights were moved -> how far each such tensor has gone, and what of that may be rounding; in the
        first twin of those that have."""
        ways: dict[str, list[tuple[Any, float]]] = {}
        for one in tensors:
            then, before = self._begun.get(id(one), (None, None))
            if then is one and ((way := _values(one) - before).any() or self._told.against):
                for first in {digest(before), digest(self._drawn.get(id(one), before))}:
                    ways.setdefault(first, []).append((way, 5e-7 * float(before.norm())))
        return ways

    def _stepped(self) -> None:
        if os.getpid() != self._owner:
            return
        self._began = self._began or time.monotonic()
        least, most = min(self._counts.values()), max(self._counts.values())
        if most <= MOST_OF_RANKS or not most % 100:
            self.write("steps")
        if least < STEPS_HELD and len(self._counts) < len(self._made):
            least = most // 4  # one that never steps
        alone = self.facts["size"] == 1
        over = most >= (MOST_STEPS if alone else MOST_OF_RANKS) or (alone and time.monotonic() - self._began > MOST_S)
        if least >= STEPS_HELD and over:
            self._ends("limit")

    def _ends(self, how: str) -> None:
        """Ends the process: what the script would do next is of no interest."""
        self.write(how)
        sys.stdout.flush()
        os._exit(0)

    # -- the end

    def at_exit(self) -> None:
        """The script has come to an end of its own."""
        if os.getpid() != self._owner:
            return
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        failed = isinstance(error, BaseException) and not isinstance(error, SystemExit)
        if failed:
            widened = " (its weights of half precision were turned to single, since rounding hides a difference)" if self._widened else ""
            self.facts["why"] = f"{type(error).__name__}: {error}"[:500] + widened
        self.write("failed" if failed else "exit")
        end_soon()

    def write(self, ended: str) -> None:
        said = {**self.facts, **self._rows.facts, "ended": ended, "by_hand": self._rest.by_hand}
        path = self._records / str(self._owner) / "twin.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_text(json.dumps(said), encoding="utf-8")
        path.with_suffix(".new").replace(path)


def figures(first: Sequence[Any], other: Sequence[Any]) -> dict[str, Any]:
    """Compares gradients with the first twin's: ``apart`` (relative distance), ``factor`` (the best g = c g1), ``rest`` (what is left after
    it), both lengths, and ``alone``: the relative distance of the parameter (number ``at``) that differs most by itself, and by more than
    the whole rounds by. A router's gradients are a ten-thousandth of a model's, and Adam makes as long a step of them."""
    import torch

    if len(first) != len(other):
        return {"mismatch": f"{len(other)} parameters instead of {len(first)}"}
    nothing = torch.zeros(())
    pairs = [(nothing if a is None else a, nothing if b is None else b) for a, b in zip(first, other, strict=True)]
    if any(a.ndim and b.ndim and a.shape != b.shape for a, b in pairs):
        return {"mismatch": "parameters of other shapes"}
    lengths, distances = [_product(a, a) for a, _ in pairs], [_product(b - a, b - a) for a, b in pairs]
    own, length = sum(lengths), sum(_product(b, b) for _, b in pairs)
    factor = sum(_product(a, b) for a, b in pairs) / own if own else 0.0
    rest = sum(_product(b - factor * a, b - factor * a) for a, b in pairs)
    alone = max(((_part(far, lengths[at]), at) for at, far in enumerate(distances) if far > ROUNDS**2 * own), default=())
    return {
        "apart": _part(sum(distances), own), "factor": factor, "rest": _part(rest, length), "length": length**0.5, "length_first": own**0.5,
    } | dict(zip(("alone", "at"), alone, strict=False))  # fmt: skip


def _product(a: Any, b: Any) -> float:
    return float((a.double() * b.double()).sum())


def _farthest(ways: Sequence[tuple[Any, float]], others: Sequence[tuple[Any, float]] | None) -> float:
    """Greatest distance of one of the ways from the nearest of the others, beyond rounding, in parts of itself; 0 where there are none."""
    far = ((min(float((way - one).norm()) for one, _ in others or ()) - rounding) / float(way.norm()) for way, rounding in ways if others)
    return max((0.0, *far))


def _name(parameter: Any) -> str:
    """A parameter's longest name in any module, which says most of where it is."""
    import torch

    names = (name for module in _alive(torch.nn.Module) for name, one in module.named_parameters() if one is parameter)
    return max(names, key=len, default="one of its parameters")


def _part(square: float, whole: float) -> float:
    return (square / whole) ** 0.5 if whole else (0.0 if not square else float(10**6))


def _values(tensor: Any) -> Any:
    """A copy of (a part of) a tensor in single precision: of a shared one, of this rank's share."""
    if tensor is None:
        return None
    whole = tensor.detach()
    flat = (whole.to_local() if hasattr(whole, "to_local") else whole).to_dense().reshape(-1)
    return flat[:: max(-(-flat.numel() // MOST_VALUES), 1)].to("cpu").float().clone()


def _is_there(tensor: Any) -> bool:
    """Tells whether it has values: not on ``meta``, and not freed until its next use, as FSDP's gathered weights are."""
    return not tensor.is_meta and (hasattr(tensor, "to_local") or tensor.untyped_storage().nbytes() > 0)


def _is_half(tensor: Any) -> bool:
    return str(tensor.dtype) in ("torch.float16", "torch.bfloat16")


def _alive(kind: type) -> list[Any]:
    """Objects of a kind; whatever stands in the place of others isn't asked what it is."""
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]


def _parameters(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _settings(optimizer: Any) -> list[dict[str, str]]:
    """The numbers of each of its groups: learning rate, weight decay, momentum."""
    groups = [{name: told.item() if hasattr(told, "item") else told for name, told in one.items()} for one in optimizer.param_groups]
    return [{name: repr(told) for name, told in one.items() if name != "step" and isinstance(told, (int, float, tuple))} for one in groups]
