"""The one place where a trial replaces functions of torch, once torch is imported: modules built and switched, backward passes, optimizer
steps, data loader passes. What the script does there is told to the instrument; a stub's own calls, and what happens while a CUDA stream is
captured into a graph, are not.

No module hooks are used, so that torch.compile sees the model it would see without us.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from . import steps as made_steps
from .instrument import Instrument
from .part import accumulation_from_outside
from .passes import probed
from .stubs import Forward


def install(instrument: Instrument) -> None:
    """Patches torch in this process, which may have imported it and built models already."""
    import torch
    from torch.utils.data import DataLoader

    modules = _Modules(instrument)
    modules.install()
    if instrument.settings.turn:
        torch.save, torch.cuda.set_device = _waiting(torch.save, instrument), _waiting(torch.cuda.set_device, instrument)
        if (store := getattr(torch.distributed, "TCPStore", None)) is not None:
            store.__init__ = _waiting(store.__init__, instrument)
    if instrument.settings.budget_only:
        made_steps.count()
        at_an_optimizer(instrument.opened_by)
        return
    _Steps(instrument, modules).install()
    DataLoader.__iter__ = probed(instrument, DataLoader.__iter__)
    instrument.on_forwarding.append(_from_outside)


def _waiting(function: Callable[..., Any], instrument: Instrument) -> Callable[..., Any]:
    """A function of native code that writes a file, or takes memory of a card or a port: it waits for the process's turn."""

    @functools.wraps(function)
    def waiting(*args: Any, **kwargs: Any) -> Any:
        instrument.wait_for_turn()
        return function(*args, **kwargs)

    return waiting


def _from_outside(forwarding: bool) -> None:
    """Has the code that accumulates from outside, which is loaded after us, stand still while training is stubbed."""
    if (outside := accumulation_from_outside()) is not None:
        outside.resumes(forwarding)


def _captured(instrument: Instrument) -> bool:
    """Tells whether this stream is being captured into a CUDA graph: nothing may wait for the device there."""
    import torch

    return instrument.orders.device == "cuda" and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _when_cuda_begins(instrument: Instrument) -> None:
    """Takes the budget once this process uses a card. One that only builds a model, and has others train, leaves the card alone: its forked
    children couldn't use CUDA any more."""
    import torch

    begin = torch.cuda._lazy_init

    @functools.wraps(begin)
    def begun() -> None:
        if not (before := torch.cuda.is_initialized() or instrument.settled):
            instrument.wait_for_turn()
        try:
            begin()
        except Exception:
            instrument.open()  # which says why there is none
            raise
        if torch.cuda.is_initialized() and not (before or instrument.settled or _importing()):
            instrument.open()

    torch.cuda._lazy_init = begun


class _Modules:
    """Knows which modules there are, which are nobody's children (roots), and when they are switched to evaluation."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument, self._depth = instrument, 0

    def install(self) -> None:
        import torch

        instrument, module = self._instrument, torch.nn.Module
        alone = instrument.orders.device == "cuda" and not instrument.orders.cards and torch.version.cuda is not None
        if alone:
            _when_cuda_begins(instrument)
        made, switch, clear = module.__init__, module.train, module.zero_grad

        @functools.wraps(made)
        def built(this: Any, *args: Any, **kwargs: Any) -> None:
            if not instrument.settled and (not alone or torch.cuda.is_initialized()) and not _importing():
                instrument.open()
            made(this, *args, **kwargs)

        module.__init__ = built
        if instrument.settings.budget_only:
            return

        @functools.wraps(switch)
        def train(this: Any, mode: bool = True) -> Any:
            self._depth += 1
            try:
                return switch(this, mode)
            finally:
                self._depth -= 1
                if not self._depth and not mode:
                    self.adopt(this)

        @functools.wraps(clear)
        def zero_grad(this: Any, set_to_none: bool = True) -> None:
            if not instrument.forwarding:  # gradients stay where they are
                clear(this, set_to_none)

        own = module.__dict__.get("__getstate__")  # from some version of PyTorch on

        def state(this: Any) -> Any:
            return Forward.without(dict(own(this) if own is not None else this.__dict__))

        module.train, module.zero_grad = train, zero_grad
        module.__getstate__ = state  # copies and pickles of a model are its own

    def adopt(self, root: Any) -> None:
        """Takes ``root`` as (one of) the model(s), where it is as large as any seen before."""
        import torch

        instrument = self._instrument
        if not instrument.active or instrument.passive or any(root is known for known in instrument.roots):
            return
        size = 0 if isinstance(root, torch.jit.ScriptModule) else _size(root)
        if size and size >= max((_size(known) for known in instrument.roots), default=0) / 2:
            self._take(root)

    def adopt_of(self, optimizer: Any) -> None:
        """Takes the outermost modules that hold the optimizer's parameters."""
        import torch

        instrument = self._instrument
        if not instrument.active or instrument.passive:
            return
        wanted = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        everything = self._living()
        children = {id(child) for one in everything for child in one.children() if child is not one}
        for one in everything:
            if id(one) in children or any(one is root for root in instrument.roots) or isinstance(one, torch.jit.ScriptModule):
                continue
            if any(id(parameter) in wanted for parameter in one.parameters()):
                self._take(one)

    def trained(self) -> list[Any]:
        """Parameters that have gradients."""
        found = {id(one): one for module in self._living() for one in module.parameters(recurse=False) if one.grad is not None}
        return list(found.values())

    def _living(self) -> list[Any]:
        """All modules that are there, and whole."""
        import torch

        return [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module) and "_modules" in vars(one)]

    def _take(self, root: Any) -> None:
        inner = [known for known in self._instrument.roots if any(known is part for part in root.modules())]
        for known in inner:  # it has been wrapped since (data parallel, compiled)
            Forward.remove(known)
            self._instrument.roots.remove(known)
        self._instrument.roots.append(root)
        Forward.put(root, self._instrument)


def at_an_optimizer(act: Callable[[Any], None]) -> None:
    """Calls ``act`` with each optimizer that is made."""
    from torch.optim.optimizer import Optimizer

    made = Optimizer.__init__

    @functools.wraps(made)
    def begun(this: Any, *args: Any, **kwargs: Any) -> None:
        made(this, *args, **kwargs)
        act(this)

    Optimizer.__init__ = begun


def _size(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _importing() -> bool:
    """Tells whether some library is being imported just now: modules that it builds at import are part of it."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


class _Steps:
    """Backward passes and optimizer steps, real ones counted, stubs in fast-forward."""

    def __init__(self, instrument: Instrument, modules: _Modules) -> None:
        self._instrument, self._modules = instrument, modules
        self._optimizers: weakref.WeakKeyDictionary[Any, None] = weakref.WeakKeyDictionary()
        """Optimizers in the order of their first steps: all ranks have the same."""
        self._stubbed: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._in_backward = False
        self._lent: list[Any] = []
        """Parameters whose gradients are zeros that a stubbed backward pass has made."""

    def install(self) -> None:
        import torch
        from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

        instrument = self._instrument
        at_an_optimizer(instrument.made)
        Optimizer.zero_grad = self._unless_forwarding(Optimizer.zero_grad)  # a wrapper's (Fabric's) inherits it from the optimizer's class
        instrument.on_forwarding.append(self._forwarding)
        instrument.on_hand.append(self._by_hand)
        torch.autograd.backward = self._counted(torch.autograd.backward)
        torch.autograd.grad = _zero_where_forwarding(torch.autograd.grad, instrument)

        def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
            if _captured(instrument):
                return
            if optimizer not in self._optimizers:
                self._optimizers[optimizer] = None
                instrument.opened_by(optimizer)  # it may have been made before what it trains was on a card
                self._modules.adopt_of(optimizer)
            instrument.stepped(optimizer, closure=any(map(callable, args[1:])) or kwargs.get("closure") is not None)

        register_optimizer_step_post_hook(stepped)
        scaler = torch.amp.GradScaler
        scaler.unscale_ = self._unless_forwarding(scaler.unscale_)
        scaler.update = self._unless_forwarding(scaler.update, but=lambda this: this._enabled and this._per_optimizer_states)
        scale_and_step = scaler.step

        @functools.wraps(scale_and_step)
        def step(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if instrument.forwarding:
                return optimizer.step()
            return scale_and_step(this, optimizer, *args, **kwargs)

        scaler.step = step

    def _counted(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        """``torch.autograd.backward`` that is counted, but for one inside another: reentrant checkpointing makes one for each part of a
        model, in a thread of the engine's while the outermost waits."""
        instrument = self._instrument

        @functools.wraps(backward)
        def counted(*args: Any, **kwargs: Any) -> None:
            if self._in_backward or _captured(instrument):
                backward(*args, **kwargs)
                return
            instrument.passes.backwards += 1
            if instrument.forwarding:
                self._lend()
                if instrument.hand is not None:
                    instrument.forwarded_step()
                return
            instrument.loss(args[0] if args else kwargs.get("tensors"))
            self._in_backward = True
            try:
                backward(*args, **kwargs)
            except Exception as error:
                instrument.swallowed_perhaps(error)
                raise
            finally:
                self._in_backward = False
            instrument.backward_done()

        return counted

    def _lend(self) -> None:
        """Gradients for what has none (it was cleared before fast-forward began): a script may change or measure them by hand."""
        import torch

        parameters = (one for optimizer, _ in self._stubbed.values() for group in optimizer.param_groups for one in group["params"])
        for one in parameters:
            if one.requires_grad and one.grad is None:
                one.grad = torch.zeros_like(one)
                self._lent.append(one)

    def _take_back(self, *_: Any, **__: Any) -> None:
        """Clears the lent gradients where the script would clear its own: they are in nobody's way as it validates."""
        for one in self._lent:
            one.grad = None
        self._lent.clear()

    def _unless_forwarding(self, method: Callable[..., Any], *, but: Callable[[Any], Any] = lambda _: False) -> Callable[..., Any]:
        """Wraps a method so that fast-forward leaves it out, save if ``but`` holds: a scaler closes the step behind which that began."""

        @functools.wraps(method)
        def maybe(this: Any, *args: Any, **kwargs: Any) -> Any:
            return method(this, *args, **kwargs) if not self._instrument.forwarding or but(this) else None

        return maybe

    def _by_hand(self) -> None:
        """Finds by gradients what is trained: no optimizer says it."""
        trained = SimpleNamespace(param_groups=[{"params": self._modules.trained()}])
        self._modules.adopt_of(trained)
        self._instrument.observe_device(trained)

    def _forwarding(self, on: bool) -> None:
        """Gives every optimizer a stub ``step`` and ``zero_grad`` of its own, or its own methods back."""
        instrument = self._instrument
        if on and instrument.hand is not None:
            for parameter in self._modules.trained():
                parameter.grad.zero_()  # what is added by hand while nothing is trained
        if not on:
            self._take_back()
            for optimizer, before in self._stubbed.values():
                for name in ("step", "zero_grad"):
                    optimizer.__dict__.pop(name, None)
                optimizer.__dict__.update(before)
            self._stubbed.clear()
            return
        for optimizer in list(self._optimizers):
            before = {name: optimizer.__dict__[name] for name in ("step", "zero_grad") if name in optimizer.__dict__}
            self._stubbed[id(optimizer)] = (optimizer, before)
            optimizer.__dict__["step"] = _stub_step(instrument, counts=len(self._stubbed) == 1)
            optimizer.__dict__["zero_grad"] = self._take_back


def _zero_where_forwarding(gradients: Callable[..., Any], instrument: Instrument) -> Callable[..., Any]:
    """Wraps ``torch.autograd.grad``, so that it gives gradients of nothing, in no memory, of a stub."""
    import torch

    @functools.wraps(gradients)
    def asked(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        given, wanted = ([one] if isinstance(one, torch.Tensor) else list(one) for one in (outputs, inputs))
        tensors = all(isinstance(one, torch.Tensor) for one in (*given, *wanted))
        if not instrument.forwarding or not tensors or any(one.requires_grad for one in given):
            return gradients(outputs, inputs, *args, **kwargs)
        return tuple(one.new_zeros(()).expand_as(one) for one in wanted)

    return asked


def _stub_step(instrument: Instrument, *, counts: bool) -> Callable[..., None]:
    def step(*args: Any, **kwargs: Any) -> None:
        if counts and instrument.forwarding:
            instrument.forwarded_step()

    return step
