"""A wrapper around model and optimizer as Lightning Fabric has it: what is set on it is set on what is inside; the optimizer is a copy.

Gradients are cleared before they are computed, so that they are there in every validation.
"""

from torch import nn
from usual import Usual


class Wrapped(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self._inside = inside
        self._ready = True

    def forward(self, *args):
        return self._inside(*args)

    def __setattr__(self, name, value):
        if self.__dict__.get("_ready") and hasattr(self._inside, name):
            setattr(self._inside, name, value)
        if not self.__dict__.get("_ready") or name in self.__dict__:
            super().__setattr__(name, value)


class WrappedOptimizer:
    def __init__(self, optimizer):
        self.__dict__ = {name: value for name, value in optimizer.__dict__.items() if name not in ("state_dict", "step")}
        self.__class__ = type("Wrapped" + type(optimizer).__name__, (WrappedOptimizer, type(optimizer)), {})
        self._optimizer = optimizer

    def step(self, closure=None):
        return self._optimizer.step(closure=closure)


usual = Usual()
usual.optimizer = WrappedOptimizer(usual.optimizer)
usual.model = Wrapped(usual.model)
for epoch in range(12):
    for number, (a, b) in enumerate(usual.train):
        if number % usual.args.accum == 0:
            usual.optimizer.zero_grad()
        (nn.functional.cross_entropy(usual.model(a), b) / usual.args.accum).backward()
        if number % usual.args.accum == usual.args.accum - 1:
            usual.optimizer.step()
    if epoch % 6 == 5:
        usual.validate()
        missing = sum(parameter.grad is None for parameter in usual.model.parameters())
        assert not missing, f"gradients of {missing} parameters are gone"
