"""Random things in a training loop are put to rest, so that two layouts of the same rows compute the same.

Seeds are set when torch is imported. Dropout does nothing. From a batch's arrival until the next is asked for, what draws gives a constant:
a constant doesn't hang on how the rows are laid out, a seed does. Half precision by autocast is left out, and batch norm uses its running
statistics: what they change is told apart.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import draws
from .collation import Collation

SEED = 1234
States = tuple[Any, Any, Any]


def states() -> States:
    """The states that random numbers of the host are drawn from: Python's, torch's, and NumPy's where it is loaded."""
    import torch

    numpy = sys.modules.get("numpy")
    return random.getstate(), torch.get_rng_state(), numpy.random.get_state() if numpy is not None else None


def back_to(kept: States) -> None:
    """Puts the states back that ``states`` gave."""
    import torch

    python, of_torch, of_numpy = kept
    random.setstate(python)
    torch.set_rng_state(of_torch)
    if of_numpy is not None:
        sys.modules["numpy"].random.set_state(of_numpy)


class AtRest:
    """Whether a batch is being trained on, when draws give constants. Streams go on afterwards as if nothing had been drawn."""

    def __init__(self, micro_batch: int) -> None:
        self.on = False
        self._micro_batch = micro_batch
        self.mixed = False
        """An order of as many things as the micro-batch has rows was drawn: what mixes rows with each other draws one."""
        self.collation: Collation | None = None
        """The collate function that runs now, which is before the batch arrives."""
        self._kept: Any = None

    def begin(self) -> None:
        """A batch has arrived."""
        if not self.on:
            self._kept, self.on = states(), True
        seed(SEED)

    def order_of(self, many: int) -> int:
        """By how many places an order of so many things is turned: as it is, nothing would be mixed with anything else."""
        self.mixed = self.mixed or many == self._micro_batch
        return -1

    def leave(self) -> None:
        """The next batch is asked for, or another pass begins."""
        if self.on:
            self.on = False
            back_to(self._kept)


def numpy_or_none() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def seed(number: int) -> None:
    """Seeds the three streams that scripts draw from."""
    import torch

    random.seed(number)
    torch.default_generator.manual_seed(number)
    if (numpy := numpy_or_none()) is not None:
        numpy.random.seed(number % 2**32)


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Draws of this block are those of the seed; the streams go on as if it had not been."""
    numpy_or_none()  # so that its state is kept, too
    kept = states()
    seed(number)
    try:
        yield
    finally:
        back_to(kept)


def install(rest: AtRest, *, batch_norm_trains: bool, seen_batch_norm: Callable[[], None]) -> None:
    """Patches torch and NumPy, which have just been imported."""
    import torch

    seed(SEED)
    _unseeded(torch)
    _dropout(torch)
    draws.install(torch, numpy_or_none(), rest)
    _evaluation(torch)
    _precision(torch)
    _batch_norm(torch, trains=batch_norm_trains, seen=seen_batch_norm)


def _unseeded(torch: Any) -> None:
    """Streams that are begun without a seed get one."""
    torch.seed = lambda: SEED
    begin = random.seed
    random.seed = lambda a=None, version=2: begin(SEED if a is None else a, version)
    if (numpy := numpy_or_none()) is None:
        return
    make, begin_numpy = numpy.random.default_rng, numpy.random.seed
    numpy.random.default_rng = lambda seed=None: make(SEED if seed is None else seed)
    numpy.random.seed = lambda seed=None: begin_numpy(SEED if seed is None else seed)


def _dropout(torch: Any) -> None:
    functional = torch.nn.functional

    def nothing(input: Any, *args: Any, **kwargs: Any) -> Any:
        return input

    for name in ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"):
        if hasattr(functional, name):
            setattr(functional, name, nothing)
    for name in ("dropout", "dropout_", "alpha_dropout", "alpha_dropout_", "feature_dropout", "feature_alpha_dropout"):
        if hasattr(torch, name):
            setattr(torch, name, nothing)
    attend = functional.scaled_dot_product_attention

    @functools.wraps(attend)
    def attended(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any) -> Any:
        return attend(query, key, value, attn_mask, 0.0, *args, **kwargs)

    functional.scaled_dot_product_attention = attended
    recurrent = torch.nn.modules.rnn.RNNBase
    made = recurrent.__init__

    @functools.wraps(made)
    def begun(this: Any, *args: Any, **kwargs: Any) -> None:
        made(this, *args, **kwargs)
        this.dropout = 0.0

    recurrent.__init__ = begun


def _evaluation(torch: Any) -> None:
    """What is drawn without gradients (an evaluation before the first step) doesn't move the streams of training."""
    for kind in (torch.no_grad, torch.inference_mode):
        enter, leave = kind.__enter__, kind.__exit__

        def entered(this: Any, enter: Any = enter) -> Any:
            this.__dict__.setdefault("_autofit_streams", []).append(states() if torch.is_grad_enabled() else None)
            return enter(this)

        def left(this: Any, *args: Any, leave: Any = leave) -> Any:
            kept = (this.__dict__.get("_autofit_streams") or [None]).pop()
            try:
                return leave(this, *args)
            finally:
                if kept is not None:
                    back_to(kept)

        kind.__enter__, kind.__exit__ = entered, left


def _precision(torch: Any) -> None:
    """Single precision all through: autocast and the scaling that goes with it are off."""
    cast = torch.autocast.__init__

    @functools.wraps(cast)
    def off(this: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        cast(this, device_type, dtype, False, cache_enabled)

    torch.autocast.__init__ = off
    scaler = torch.amp.GradScaler
    made = scaler.__init__

    @functools.wraps(made)
    def unscaled(this: Any, *args: Any, **kwargs: Any) -> None:
        made(this, *args, **kwargs)
        this._enabled = False

    scaler.__init__ = unscaled
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def widen(module: Any) -> bool:
    """Whether weights of half precision were there, which are of single precision now."""
    import torch

    halves = (torch.float16, torch.bfloat16)
    if not any(one.dtype in halves for one in module.parameters()):
        return False
    module.float()
    return True


def wide(value: Any) -> Any:
    """What a model is called with, in single precision where it was of half."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
    if type(value) in (tuple, list):
        return type(value)(wide(one) for one in value)
    return {key: wide(one) for key, one in value.items()} if type(value) is dict else value


def _batch_norm(torch: Any, *, trains: bool, seen: Callable[[], None]) -> None:
    norm, functional = torch.nn.modules.batchnorm._BatchNorm, torch.nn.functional
    plain = norm.forward

    @functools.wraps(plain)
    def forward(this: Any, input: Any) -> Any:
        if this.training:
            seen()
        if trains or not this.training:
            return plain(this, input)
        mean, variance = this.running_mean, this.running_var
        if mean is None:
            mean, variance = input.new_zeros(input.shape[1]), input.new_ones(input.shape[1])
        return functional.batch_norm(input, mean, variance, this.weight, this.bias, False, 0.0, this.eps)

    norm.forward = forward


def targets_count(module: Any) -> None:
    """Ultralytics divides a loss by its targets' scores, by one at least: of a few images and a model that has learned nothing they come
    to less than one. Each target scores one here, so that the division is the one of a real batch."""
    assigner: Any = getattr(module, "TaskAlignedAssigner", None)
    if not hasattr(assigner, "_forward"):
        return
    assign = assigner._forward

    @functools.wraps(assign)
    def assigned(*args: Any, **kwargs: Any) -> Any:
        classes, boxes, scores, chosen, *rest = assign(*args, **kwargs)
        whole = scores.new_zeros(scores.shape).scatter_(-1, classes.long().clamp(min=0).unsqueeze(-1), 1.0)
        return classes, boxes, whole * chosen.unsqueeze(-1), chosen, *rest

    assigner._forward = assigned
