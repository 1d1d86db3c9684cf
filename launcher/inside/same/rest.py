"""Random things at rest, so that two layouts of the same rows compute the same.

A row is fetched by a seed of its own. While a batch is put together, and from its arrival until the next is asked for, whatever torch draws
is a constant, which doesn't hang on how rows are laid out as a seed does; each draw of Python's and NumPy's begins anew. Dropout drops
nothing, half precision by autocast is left out, and batch norm uses its running statistics: what they change is told apart.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

SEED = 1234
DRAW = 7524
"""A seed by which Python, NumPy's functions and its generators all draw about 0.1 first: what is masked with a chance of 0.15 is masked."""
HOST = ("random", "uniform", "gauss", "normalvariate", "betavariate", "randint", "randrange", "choice", "choices", "sample", "shuffle")
NUMPY = ("random", "uniform", "normal", "standard_normal", "beta", "binomial", "choice", "permutation", "shuffle")
OF_NUMPY, OF_GENERATOR = (*NUMPY, "rand", "randn", "randint", "random_sample"), (*NUMPY, "integers")
ORDERS = ("permutation", "shuffle")


class Rest:
    """Whether draws of this process are at rest."""

    def __init__(self) -> None:
        self.on = self.collating = self.ready = False
        """At rest; while a batch is put together; an optimizer was made, and with it the weights, which are drawn as ever."""
        self.mixed = False
        """An order was drawn while a batch was trained on."""
        self._back: Callable[[], None] = lambda: None
        seed(SEED)

    def begin(self, *, collating: bool = False) -> None:
        """A batch is put together, or has arrived."""
        if not self.on:
            self._back = remembered()
        self.on, self.collating = self.ready or collating, collating

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
    if (numpy := numpy_or_none()) is not None:
        numpy.random.mtrand._rand.seed(number)


def remembered() -> Callable[[], None]:
    """Takes those streams back to where they are now."""
    import torch

    python, of_torch, numpy = random.getstate(), torch.get_rng_state(), numpy_or_none()
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


def numpy_or_none() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


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
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


# ----------------------------------------------------------------------------------------------------------------------
# What is drawn


def _constants(torch: Any, rest: Rest) -> None:
    """Every draw of torch's, whoever makes it, comes to a mode of its dispatcher."""

    class Draws(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            drawn = func(*args, **(kwargs or {}))
            if rest.on and (constant := of.get(func.overloadpacket.__name__)) is not None:
                drawn.copy_(constant(drawn, *args, **(kwargs or {})))
            return drawn

    def uniform(drawn: Any, *args: Any, **kwargs: Any) -> Any:
        return torch.full_like(drawn, 0.12 if rest.collating else 0.3)

    def between(drawn: Any, this: Any, low: float = 0.0, high: float = 1.0, **kwargs: Any) -> Any:
        return low + uniform(drawn) * (high - low)

    def normal(drawn: Any, this: Any = 0.0, mean: Any = 0.0, std: Any = 1.0, **kwargs: Any) -> Any:
        return torch.zeros_like(drawn) + mean + 0.5 * std

    def normal_of(drawn: Any, mean: Any = 0.0, std: Any = 1.0, *args: Any, **kwargs: Any) -> Any:
        return torch.zeros_like(drawn) + mean + 0.5 * std

    def whole(drawn: Any, *args: Any, **kwargs: Any) -> Any:
        bounds = [one for one in args if isinstance(one, int)]
        return torch.full_like(drawn, sum(bounds[:2]) // 2)

    def chance(drawn: Any, this: Any, p: Any = None, **kwargs: Any) -> Any:
        return torch.zeros_like(drawn) + (this if p is None else p)

    def turned(drawn: Any, *args: Any, **kwargs: Any) -> Any:
        rest.mixed = rest.mixed or not rest.collating
        return torch.arange(len(drawn), device=drawn.device).roll(-1)  # as it is, nothing would be mixed with anything else

    def likeliest(drawn: Any, probabilities: Any, *args: Any, **kwargs: Any) -> Any:
        return probabilities.argmax(-1, keepdim=True)

    table: dict[Callable[..., Any], tuple[str, ...]] = {
        uniform: ("rand", "rand_like"), between: ("uniform_", "uniform"), normal: ("normal_", "normal_functional"),
        normal_of: ("normal",), chance: ("bernoulli_", "bernoulli"), turned: ("randperm",), likeliest: ("multinomial",),
        whole: ("randint", "randint_like", "random_", "random"),
        (lambda drawn, *args, **kwargs: torch.full_like(drawn, 0.5)): ("randn", "randn_like", "exponential_", "exponential"),
    }  # fmt: skip
    of = {name: constant for constant, names in table.items() for name in names}
    Draws().__enter__()


def _host(rest: Rest) -> None:
    """Python's draws and NumPy's: each begins anew, and all of an array's are alike."""
    for name in HOST:
        setattr(random, name, _anew(getattr(random, name), rest))
    if (numpy := numpy_or_none()) is None:
        return
    for name in OF_NUMPY:
        setattr(numpy.random, name, _anew(getattr(numpy.random, name), rest, spread=name not in ORDERS))
    kind, make = numpy.random.Generator, numpy.random.default_rng

    def fresh(plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def drawn(this: Any, *args: Any, **kwargs: Any) -> Any:
            return plain(make(DRAW) if rest.on else this, *args, **kwargs)

        return _anew(drawn, rest, spread=plain.__name__ not in ORDERS)

    own = type("Generator", (kind,), {name: fresh(getattr(kind, name)) for name in OF_GENERATOR})
    numpy.random.default_rng = lambda seed=SEED: own(make(SEED if seed is None else seed).bit_generator)


def _anew(plain: Callable[..., Any], rest: Rest, *, spread: bool = False) -> Callable[..., Any]:
    @functools.wraps(plain)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        if rest.on:
            seed(DRAW)
            rest.mixed = rest.mixed or (plain.__name__ in ORDERS and not rest.collating)
        result = plain(*args, **kwargs)
        if rest.on and spread and getattr(result, "size", 1) > 1:
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
