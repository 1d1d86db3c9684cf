"""What torch, NumPy and Python draw. While a batch is trained on it is a constant; while a batch is put together it belongs to its rows.

A constant doesn't depend on how the rows are laid out, a seed does.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .collation import ALL, EACH

if TYPE_CHECKING:
    from .still import AtRest

Value = Callable[..., Any]


class Drawing(NamedTuple):
    """A function that draws."""

    constant: Value
    """(what it has drawn, its arguments) -> the constant."""
    value: Value | None = None
    """(numbers, its arguments) -> what it draws, of as many numbers."""
    stream: str = "random"
    """Of which kind those are: evenly from 0 to 1, or normal (gauss)."""


def install(torch: Any, numpy: Any, rest: AtRest) -> None:
    """Patches torch, NumPy where it is there, and Python's own module."""
    _torch(torch, rest)
    _python(rest)
    if numpy is not None:
        _numpy(numpy, rest)


def _plain(numbers: Any, *args: Any, **kwargs: Any) -> Any:
    return numbers


def _bounds(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """From which to which whole number ``randint`` draws."""
    given = [one for one in args[:2] if isinstance(one, int)]
    high = kwargs.get("high", given[-1] if given else 2)
    low = kwargs.get("low", given[0] if len(given) > 1 else 0)
    return (0, low) if high is None else (low, high)


def _whole(numbers: Any, *args: Any, **kwargs: Any) -> Any:
    low, high = _bounds(args, kwargs)
    return low + numbers * (high - low) // 1


def _whole_like(numbers: Any, *args: Any, **kwargs: Any) -> Any:
    return _whole(numbers, *args[1:], **kwargs)


def _scaled(numbers: Any, loc: Any = 0.0, scale: Any = 1.0, *args: Any, **kwargs: Any) -> Any:
    return kwargs.get("mean", loc) + numbers * kwargs.get("std", scale)


def _between(numbers: Any, low: Any = 0.0, high: Any = 1.0, *args: Any, **kwargs: Any) -> Any:
    low, high = kwargs.get("from", low), kwargs.get("to", high)
    return low + numbers * (high - low)


def _of_a_tensor(value: Value) -> Value:
    """A method's, whose first argument is what is filled."""
    return lambda numbers, tensor, *args, **kwargs: value(numbers, *args, **kwargs)


# ----------------------------------------------------------------------------------------------------------------------
# torch


def _filled(value: float) -> Value:
    return lambda drawn, *args, **kwargs: drawn.fill_(value)


def _middle(drawn: Any, *args: Any, **kwargs: Any) -> Any:
    """What ``torch.randint`` gives: the middle of its range."""
    return drawn.fill_(sum(_bounds(args, kwargs)) // 2)


def _likeliest(drawn: Any, probabilities: Any, num_samples: int, *args: Any, **kwargs: Any) -> Any:
    """What ``torch.multinomial`` gives: the likeliest, and those after it."""
    most = min(num_samples, probabilities.shape[-1])
    return drawn.copy_(probabilities.topk(most, dim=-1).indices.repeat_interleave(-(-num_samples // most), dim=-1)[..., :num_samples])


def _true(numbers: Any, p: Any = 0.5, *args: Any, **kwargs: Any) -> Any:
    return numbers < (p.double() if hasattr(p, "double") else p)


def _torch(torch: Any, rest: AtRest) -> None:
    def ordered(drawn: Any, *args: Any, **kwargs: Any) -> Any:
        return drawn.copy_(torch.arange(len(drawn)).roll(rest.order_of(len(drawn))))

    functions = {
        **dict.fromkeys(("randn", "randn_like"), Drawing(_filled(0.5), _plain, "gauss")),
        "normal": Drawing(_filled(0.5), _scaled, "gauss"),
        **dict.fromkeys(("rand", "rand_like"), Drawing(_filled(0.3), _plain)),
        "randint": Drawing(_middle, _whole), "randint_like": Drawing(_filled(0), _whole_like), "bernoulli": Drawing(_filled(1.0), _true),
        "randperm": Drawing(ordered), "multinomial": Drawing(_likeliest),
    }  # fmt: skip
    methods = {
        "normal_": Drawing(_filled(0.5), _of_a_tensor(_scaled), "gauss"), "uniform_": Drawing(_filled(0.3), _of_a_tensor(_between)),
        "bernoulli_": Drawing(_filled(1.0), _of_a_tensor(_true)), "exponential_": Drawing(_filled(1.0)), "random_": Drawing(_filled(0.0)),
    }  # fmt: skip
    for place, table in ((torch, functions), (torch.Tensor, methods)):
        for name, draw in table.items():
            setattr(place, name, _of_torch(torch, getattr(place, name), draw, rest))


def _of_torch(torch: Any, plain: Callable[..., Any], draw: Drawing, rest: AtRest) -> Callable[..., Any]:
    @functools.wraps(plain)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        collation = rest.collation
        if collation is not None and kwargs.get("generator") is not None:
            kwargs["generator"] = None  # the row's stream instead of a private one, of which more is drawn for longer rows
        result = plain(*args, **kwargs)
        if rest.on:
            with torch.no_grad():
                return draw.constant(result, *args, **kwargs)
        if collation is None:
            return result
        whose = collation.whose(tuple(result.shape), sys._getframe(1))
        with torch.no_grad():
            if whose == EACH and draw.value is not None:
                numbers = torch.tensor(collation.numbers(draw.stream, result.shape), dtype=torch.float64).reshape(result.shape)
                return result.copy_(draw.value(numbers, *args, **kwargs))
            return draw.constant(result, *args, **kwargs) if whose in (ALL, EACH) else result

    return drawn


# ----------------------------------------------------------------------------------------------------------------------
# NumPy


def _numpy(numpy: Any, rest: AtRest) -> None:
    """Its functions, and those of generators that are begun from now on."""
    module = numpy.random

    def number(result: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(result, "fill"):
            result.fill(result.dtype.type(0.3))
            return result
        return type(result)(0.3)

    def among(a: Any) -> Any:
        return numpy.arange(a) if isinstance(a, int) else numpy.asarray(a)

    def chosen(result: Any, a: Any, *args: Any, **kwargs: Any) -> Any:
        return numpy.resize(among(a), result.shape) if hasattr(result, "shape") and result.shape else among(a)[0]

    def picked(numbers: Any, a: Any, *args: Any, p: Any = None, **kwargs: Any) -> Any:
        of = among(a)
        at = numbers * len(of) if p is None else numpy.searchsorted(numpy.cumsum(p), numbers, side="right")
        return of[numpy.minimum(at.astype(int), len(of) - 1)]

    def hits(numbers: Any, n: Any, p: Any, *args: Any, **kwargs: Any) -> Any:
        return (numbers < p) * n

    def ordered(_: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return numpy.roll(among(x), rest.order_of(len(among(x))), axis=0)

    common = {
        "random": Drawing(number, _plain), "uniform": Drawing(number, _between), "normal": Drawing(number, _scaled, "gauss"),
        "standard_normal": Drawing(number, _plain, "gauss"), "beta": Drawing(number), "binomial": Drawing(number, hits),
        "choice": Drawing(chosen, picked), "permutation": Drawing(ordered),
    }  # fmt: skip
    of_module = {
        **common, "rand": common["random"], "random_sample": common["random"], "randn": common["standard_normal"],
        "randint": Drawing(number, _whole),
    }  # fmt: skip
    for name, draw in of_module.items():
        setattr(module, name, _of_numpy(numpy, getattr(module, name), draw, rest))
    module.shuffle = _unless(module.shuffle, rest)
    own = {name: _of_numpy(numpy, getattr(module.Generator, name), draw, rest, skip=1) for name, draw in common.items()}
    own |= {"integers": _of_numpy(numpy, module.Generator.integers, Drawing(number, _whole), rest, skip=1)}
    own |= {"shuffle": _unless(module.Generator.shuffle, rest)}
    generator, make = type("Generator", (module.Generator,), own), module.default_rng
    module.default_rng = functools.wraps(make)(lambda *args, **kwargs: generator(make(*args, **kwargs).bit_generator))


def _of_numpy(numpy: Any, plain: Callable[..., Any], draw: Drawing, rest: AtRest, *, skip: int = 0) -> Callable[..., Any]:
    """``skip``: arguments before those of the draw: a method's own."""

    @functools.wraps(plain)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        result, collation = plain(*args, **kwargs), rest.collation
        if rest.on:
            return draw.constant(result, *args[skip:], **kwargs)
        if collation is None:
            return result
        shape = numpy.shape(result)
        whose = collation.whose(shape, sys._getframe(1))
        if whose == EACH and draw.value is not None:
            numbers = numpy.array(collation.numbers(draw.stream, shape)).reshape(shape)
            return numpy.asarray(draw.value(numbers, *args[skip:], **kwargs)).astype(result.dtype)
        return draw.constant(result, *args[skip:], **kwargs) if whose in (ALL, EACH) else result

    return drawn


# ----------------------------------------------------------------------------------------------------------------------
# Python


def _unless(shuffle: Callable[..., Any], rest: AtRest) -> Callable[..., Any]:
    """What shuffles in place leaves the order as it is, unless it is of one row."""

    @functools.wraps(shuffle)
    def shuffled(*args: Any, **kwargs: Any) -> Any:
        return None if _rests(rest) else shuffle(*args, **kwargs)

    return shuffled


def _rests(rest: AtRest) -> bool:
    """Whether a single number that is drawn now is a constant."""
    return rest.on or (rest.collation is not None and not rest.collation.in_hand())


def _python(rest: AtRest) -> None:
    constants: dict[str, Value] = {
        "random": lambda: 0.3,
        "uniform": lambda a, b: a + 0.3 * (b - a),
        "gauss": lambda mu=0.0, sigma=1.0: mu + 0.5 * sigma,
        "normalvariate": lambda mu=0.0, sigma=1.0: mu + 0.5 * sigma,
        "betavariate": lambda alpha, beta: alpha / (alpha + beta),
        "randint": lambda a, b: (a + b) // 2,
        "randrange": lambda start, stop=None, step=1: start // 2 if stop is None else start,
        "choice": lambda seq: seq[0],
        "choices": lambda population, *_, k=1, **__: [population[0]] * k,
        "sample": lambda population, k, **_: list(population)[:k],
    }
    for name, constant in constants.items():
        setattr(random, name, _of_python(getattr(random, name), constant, rest))
    random.shuffle = _unless(random.shuffle, rest)


def _of_python(plain: Callable[..., Any], constant: Value, rest: AtRest) -> Callable[..., Any]:
    @functools.wraps(plain)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        return constant(*args, **kwargs) if _rests(rest) else plain(*args, **kwargs)

    return drawn
