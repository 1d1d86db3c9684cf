"""Random things in a training loop are put to rest, so that two layouts of the same rows compute the same.

Seeds are set when torch is imported. Dropout does nothing. From a batch's arrival until the next is asked for, what draws gives a constant:
a constant doesn't hang on how the rows are laid out, a seed does. Half precision by autocast is left out, and batch norm uses its running
statistics: what they change is told apart.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SEED = 1234


class Rest:
    """Whether a batch is being trained on, when draws give constants. Streams go on afterwards as if nothing had been drawn."""

    def __init__(self) -> None:
        self.on = False
        self._kept: Any = None

    def begin(self) -> None:
        """A batch has arrived."""
        if not self.on:
            self._kept, self.on = states(), True
        seed(SEED)

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


def states() -> tuple[Any, Any, Any]:
    import torch

    numpy = numpy_or_none()
    return random.getstate(), torch.get_rng_state(), numpy.random.get_state() if numpy is not None else None


def back_to(kept: tuple[Any, Any, Any]) -> None:
    import torch

    random.setstate(kept[0])
    torch.set_rng_state(kept[1])
    if kept[2] is not None:
        numpy_or_none().random.set_state(kept[2])


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Draws of this block are those of the seed; the streams go on as if it had not been."""
    kept = states()
    seed(number)
    try:
        yield
    finally:
        back_to(kept)


def install(rest: Rest, *, batch_norm_trains: bool, seen_batch_norm: Callable[[], None]) -> None:
    """Patches torch and NumPy, which have just been imported."""
    import torch

    seed(SEED)
    _unseeded(torch)
    _dropout(torch)
    _draws(torch, rest)
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


def _middle(drawn: Any, *args: Any, **kwargs: Any) -> Any:
    """What ``torch.randint`` gives: the middle of its range."""
    bounds = [one for one in args[:2] if isinstance(one, int)]
    high = kwargs.get("high", bounds[-1] if bounds else 2)
    low = kwargs.get("low", bounds[0] if len(bounds) > 1 else 0)
    return drawn.fill_((low + high) // 2)


def _likeliest(drawn: Any, probabilities: Any, num_samples: int, *args: Any, **kwargs: Any) -> Any:
    """What ``torch.multinomial`` gives: the likeliest, and those after it."""
    most = min(num_samples, probabilities.shape[-1])
    return drawn.copy_(probabilities.topk(most, dim=-1).indices.repeat_interleave(-(-num_samples // most), dim=-1)[..., :num_samples])


def _filled(value: float) -> Callable[..., Any]:
    return lambda drawn, *args, **kwargs: drawn.fill_(value)


def _draws(torch: Any, rest: Rest) -> None:
    """Functions and methods that draw give constants while a batch is trained on."""

    def at_rest(draw: Callable[..., Any], constant: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(draw)
        def drawn(*args: Any, **kwargs: Any) -> Any:
            result = draw(*args, **kwargs)
            if not rest.on:
                return result
            with torch.no_grad():
                return constant(result, *args, **kwargs)

        return drawn

    ordered = lambda drawn, *args, **kwargs: drawn.copy_(torch.arange(len(drawn)))  # noqa: E731
    functions = {
        **dict.fromkeys(("randn", "randn_like", "normal"), _filled(0.5)),
        **dict.fromkeys(("rand", "rand_like"), _filled(0.3)),
        "randint": _middle, "randint_like": _filled(0), "bernoulli": _filled(1.0), "randperm": ordered, "multinomial": _likeliest,
    }  # fmt: skip
    for name, constant in functions.items():
        setattr(torch, name, at_rest(getattr(torch, name), constant))
    methods = {"normal_": 0.5, "uniform_": 0.3, "bernoulli_": 1.0, "exponential_": 1.0, "random_": 0.0}
    for name, value in methods.items():
        setattr(torch.Tensor, name, at_rest(getattr(torch.Tensor, name), _filled(value)))
    _python_draws(rest)
    if (numpy := numpy_or_none()) is not None:
        _numpy_draws(numpy.random, rest)


def _numpy_draws(module: Any, rest: Rest) -> None:
    """NumPy's: a number is 0.3, whatever stands around it; what is chosen are the first."""
    import numpy

    def at_rest(draw: Callable[..., Any], constant: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(draw)
        def drawn(*args: Any, **kwargs: Any) -> Any:
            return constant(draw(*args, **kwargs), *args, **kwargs) if rest.on else draw(*args, **kwargs)

        return drawn

    def number(result: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(result, "fill"):
            result.fill(result.dtype.type(0.3))
            return result
        return type(result)(0.3)

    def chosen(result: Any, a: Any, *args: Any, **kwargs: Any) -> Any:
        among = numpy.arange(a) if isinstance(a, int) else numpy.asarray(a)
        return numpy.resize(among, result.shape) if hasattr(result, "shape") and result.shape else among[0]

    for name in ("rand", "randn", "random", "random_sample", "uniform", "normal", "standard_normal", "randint", "beta"):
        setattr(module, name, at_rest(getattr(module, name), number))
    module.choice = at_rest(module.choice, chosen)
    module.permutation = at_rest(module.permutation, lambda _, x: numpy.arange(x) if isinstance(x, int) else numpy.array(x))
    shuffle = module.shuffle
    module.shuffle = lambda x: None if rest.on else shuffle(x)


def _python_draws(rest: Rest) -> None:
    """Python's own."""

    def at_rest(name: str, constant: Callable[..., Any]) -> None:
        draw = getattr(random, name)

        @functools.wraps(draw)
        def drawn(*args: Any, **kwargs: Any) -> Any:
            return constant(*args, **kwargs) if rest.on else draw(*args, **kwargs)

        setattr(random, name, drawn)

    at_rest("random", lambda: 0.3)
    at_rest("uniform", lambda a, b: a + 0.3 * (b - a))
    at_rest("randint", lambda a, b: (a + b) // 2)
    at_rest("randrange", lambda start, stop=None, step=1: start // 2 if stop is None else start)
    at_rest("choice", lambda seq: seq[0])
    at_rest("sample", lambda population, k, **_: list(population)[:k])
    at_rest("shuffle", lambda x: None)


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
