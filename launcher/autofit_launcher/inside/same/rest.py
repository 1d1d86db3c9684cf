"""Random things at rest, so that two layouts of the same rows compute the same.

A row is fetched by a seed of its own. While a batch is put together, and from its arrival until the next is asked for, what is drawn for
all its rows (by its first dimension) is drawn for each by the row's own seed, and any other draw is a constant: neither hangs on how rows
are laid out. Dropout drops nothing, half precision by autocast is left out, and batch norm uses its running statistics.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SEED = 1234
DRAW = 7524
"""A seed by which Python, NumPy's functions and its generators all draw about 0.1 first: what is masked with a chance of 0.15 is masked."""
HOST = ("random", "uniform", "gauss", "normalvariate", "betavariate", "randint", "randrange", "choice", "choices", "sample", "shuffle")
NUMPY = ("random", "uniform", "normal", "standard_normal", "beta", "binomial", "choice", "permutation", "shuffle")
OF_NUMPY, OF_GENERATOR = (*NUMPY, "rand", "randn", "randint", "random_sample"), (*NUMPY, "integers")
ORDERS = ("permutation", "shuffle")
FETCHES_AHEAD = ("accelerate.data_loader", "lightning.pytorch", "pytorch_lightning")
"""Libraries by which the batch that came last isn't the one that is trained on."""


class Rest:
    """Keeps draws of this process at rest, or lets them go on."""

    def __init__(self) -> None:
        self.on = self.collating = self.ready = False
        """Draws are at rest; a batch is put together; an optimizer was made, and with it the weights, which are drawn as ever."""
        self.by_hand = False
        """A collate function draws for one row after another."""
        self.rows: Sequence[int] = ()
        """A number for each row of the batch."""
        self._draws = self._single = 0
        """Number of draws for all rows of the batch so far; number of draws for none of them, or one."""
        self._back: Callable[[], None] = lambda: None
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy")  # so that its streams are seeded, too
        seed(SEED)

    def begin(self, *, collating: bool = False) -> None:
        """A batch is put together, or has arrived."""
        if not self.on:
            self._back = remembered()
        self.on, self.collating = self.ready or collating, collating
        if not collating and any(name in sys.modules for name in FETCHES_AHEAD):
            self.rows = [0] * len(self.rows)  # whose rows these are isn't known
        self._draws = self._single = 0

    def seeds(self, drawn: Any) -> list[int]:
        """Returns a seed for each row that a draw is for; empty if it is for no rows, or is one number for each, which may be alike."""
        shape = getattr(drawn, "shape", ())
        if shape and shape[0] == len(self.rows) < math.prod(shape):
            self._draws += 1
            return [(row * 1000 + self._draws) % 2**32 for row in self.rows]
        self._single += 1
        self.by_hand = self.by_hand or (self.collating and self._single >= len(self.rows) > 1)
        return []

    def leave(self) -> None:
        """The next batch is asked for: the streams go on as if nothing had been drawn."""
        if self.on:
            self.on = False
            self._back()


def seed(number: int) -> None:
    """Seeds the streams that scripts draw from, whatever stands in the place of their functions."""
    import torch

    random.Random.seed(random._inst, number)
    torch.default_generator.manual_seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.mtrand._rand.seed(number)


def remembered() -> Callable[[], None]:
    """Takes those streams back to where they are now."""
    import torch

    python, of_torch, numpy = random.getstate(), torch.get_rng_state(), sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy is not None else None

    def back() -> None:
        random.setstate(python)
        torch.set_rng_state(of_torch)
        if numpy is not None:
            numpy.random.set_state(of_numpy)

    return back


@contextlib.contextmanager
def seeded(number: int) -> Iterator[None]:
    """Draws of this block are those of the seed; the streams go on as if it had not been."""
    back = remembered()
    seed(number)
    try:
        yield
    finally:
        back()


def install(rest: Rest, seen_batch_norm: Callable[[], None]) -> None:
    """Patches torch, NumPy and Python's own module."""
    import torch

    _constants(torch, rest)
    _host(rest)
    torch.seed = lambda: SEED
    functional = torch.nn.functional
    for name in ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"):
        setattr(functional, name, lambda input, *args, **kwargs: input)
    torch.nn.modules.rnn.RNNBase.dropout = property(lambda this: 0.0, lambda this, value: None)
    attend, norm = functional.scaled_dot_product_attention, functional.batch_norm

    @functools.wraps(attend)
    def attended(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any) -> Any:
        return attend(query, key, value, attn_mask, 0.0, *args, **kwargs)

    @functools.wraps(norm)
    def normed(input: Any, mean: Any, variance: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(norm).bind(input, mean, variance, *args, **kwargs)
        if given.arguments.pop("training", False):
            seen_batch_norm()
        if mean is None:
            given.arguments |= {"running_mean": input.new_zeros(input.shape[1]), "running_var": input.new_ones(input.shape[1])}
        return norm(*given.args, **given.kwargs)

    functional.scaled_dot_product_attention, functional.batch_norm = attended, normed
    cast = torch.autocast.__init__

    @functools.wraps(cast)
    def off(this: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        cast(this, device_type, dtype, False, cache_enabled)

    torch.autocast.__init__ = off
    _plain(torch)


def _plain(torch: Any) -> None:
    """Leaves out TF32, TorchScript and compiled kernels, as a twin's variables do where they are there before torch (``forks.EXACT``)."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for setter in ("_set_cublas_allow_tf32", "_set_cudnn_allow_tf32", "_set_float32_matmul_precision", "_set_fp32_precision_setter"):
        setattr(torch._C, setter, lambda *_: None)
    vars(type(torch.backends.cudnn))["allow_tf32"].setter = lambda *_: None
    sys.modules["torch.jit._state"].disable()
    if "torch._dynamo" in sys.modules and hasattr(torch._dynamo, "set_stance"):  # from PyTorch 2.6 on
        torch._dynamo.set_stance("force_eager")


def _constants(torch: Any, rest: Rest) -> None:
    """Sends each draw of torch's, whoever makes it, to a mode of its dispatcher."""

    class Draws(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            drawn = func(*args, **(kwargs or {}))
            if rest.on and (constant := of.get(func.overloadpacket.__name__)) is not None:
                drawn.copy_(constant(drawn, *args, **(kwargs or {})))
            return drawn

    def own(drawn: Any) -> Any:
        """Draws from 0 to 1: each row's own numbers, of which longer rows have more; None where it is for no rows."""
        seeds, generator = rest.seeds(drawn), torch.Generator()
        rows = [torch.rand(drawn[:1].numel(), generator=generator.manual_seed(number)) for number in seeds]
        return torch.stack(rows).reshape(drawn.shape).to(drawn.device) if rows else None

    def even(drawn: Any, still: float = 0.3) -> Any:
        numbers = own(drawn)
        return torch.full(drawn.shape, 0.12 if rest.collating else still, device=drawn.device) if numbers is None else numbers

    def normal(drawn: Any, mean: Any = 0.0, std: Any = 1.0) -> Any:
        return mean + (2 * even(drawn, 0.75) - 1) * std

    def whole(drawn: Any, *args: Any, **_: Any) -> Any:
        bounds = [one for one in args if isinstance(one, int)][:2]
        low, high = bounds if len(bounds) > 1 else (0, *bounds, 1)[:2]
        return low + (even(drawn, 0.5) * (high - low)).floor()

    def chance(drawn: Any, this: Any, p: Any = None, **_: Any) -> Any:
        chances, numbers = this if p is None else p, own(drawn)
        return torch.zeros_like(drawn) + chances if numbers is None else numbers < chances

    def turned(drawn: Any, *_: Any, **__: Any) -> Any:
        return torch.arange(len(drawn), device=drawn.device).roll(-1)  # as it is, nothing would be mixed with anything else

    of: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(("rand", "rand_like"), lambda drawn, *_, **__: even(drawn)),
        **dict.fromkeys(("randn", "randn_like"), lambda drawn, *_, **__: normal(drawn)),
        **dict.fromkeys(("randint", "randint_like", "random_"), whole), **dict.fromkeys(("bernoulli", "bernoulli_"), chance),
        "uniform_": lambda drawn, this, low=0.0, high=1.0, **_: low + even(drawn) * (high - low),
        "normal_": lambda drawn, this, mean=0.0, std=1.0, **_: normal(drawn, mean, std),
        "normal": lambda drawn, mean=0.0, std=1.0, *_, **__: normal(drawn, mean, std),
        "exponential_": lambda drawn, *_, **__: 0.5 + even(drawn, 0.5), "randperm": turned,
        "multinomial": lambda drawn, chances, *_, **__: chances.argmax(-1, keepdim=True),
    }  # fmt: skip
    Draws().__enter__()


def _host(rest: Rest) -> None:
    """Begins draws of Python's and NumPy's anew. An array for all rows is made row by row; of another all numbers are alike."""
    for name in HOST:
        setattr(random, name, _anew(getattr(random, name), rest))
    stream: Any = random.Random  # a library's own
    begin = stream.seed
    stream.seed = lambda this, a=None, version=2: begin(this, SEED if a is None else a, version)
    if (numpy := sys.modules.get("numpy")) is None:
        return
    for name in OF_NUMPY:
        setattr(numpy.random, name, _anew(getattr(numpy.random, name), rest))
    kind, make, state = numpy.random.Generator, numpy.random.default_rng, numpy.random.get_state

    def fresh(plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def drawn(this: Any, *args: Any, **kwargs: Any) -> Any:
            return plain(make(state()[1]) if rest.on else this, *args, **kwargs)

        return _anew(drawn, rest)

    own = type("Generator", (kind,), {name: fresh(getattr(kind, name)) for name in OF_GENERATOR})
    numpy.random.default_rng = lambda seed=SEED: own(make(SEED if seed is None else seed).bit_generator)


def _anew(plain: Callable[..., Any], rest: Rest) -> Callable[..., Any]:
    @functools.wraps(plain)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        if not rest.on:
            return plain(*args, **kwargs)

        def begun(number: int) -> Any:
            seed(number)
            return plain(*args, **kwargs)

        result, order = begun(DRAW), plain.__name__ in ORDERS
        seeds = [] if order else rest.seeds(result)
        for at, number in enumerate(seeds):
            result[at] = begun(number)[0]
        if not seeds and not order and getattr(result, "size", 1) > 1:
            result[...] = 1 if plain.__name__ == "binomial" else result.flat[0]
        return result

    return drawn


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
