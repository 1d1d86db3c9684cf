"""Builds the ladder from a recipe's ``ask`` and ``ladder`` and from what its adapter knows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from autofit_launcher.adapter.protocol import Adapter, WheelSpec
from autofit_launcher.config.schema import Recipe, WheelRule
from autofit_launcher.errors import BadInput, Fault, did_you_mean
from autofit_launcher.ladder.rungs import MICRO_BATCH, Ladder, Value, Wheel, build, divisors_down, halves_down, sizes_down, whole_floor


def ladder_of(adapter: Adapter) -> Ladder:
    """The ladder of the recipe that ``adapter`` is bound to.

    Raises BadInput with all faults of ``ask`` and ``ladder``: unknown wheels, wrong types, impossible floors, values off their grid.
    """
    recipe = adapter.recipe
    faults = _ask_faults(adapter)
    if recipe.device.cards is not None and not (adapter.ranks or adapter.starts_ranks):
        found = f"{recipe.device.cards!r}: {adapter.name} is started once"
        faults.append(Fault(key="device.cards", found=found, cure="Leave it out."))
    if faults:
        raise BadInput(faults)
    accumulation = recipe.ask.get("accumulation") or adapter.asked.accumulation
    micro_batch, world_size = recipe.ask.get(MICRO_BATCH) or 0, adapter.asked.world_size
    assert isinstance(micro_batch, int) and isinstance(accumulation, int)
    effective, wheels = micro_batch * accumulation, list[Wheel]()
    for name in _turning(recipe):
        try:
            wheels.append(_wheel(name, adapter, effective))
        except ValueError as error:
            faults.append(Fault(key=f"ladder.wheels.{name}", found=str(error), cure=_WHEEL_CURE.format(name=name)))
    if faults:
        raise BadInput(faults)
    whole, keep = effective * world_size, recipe.ladder.keep_batch
    return build(wheels, effective_batch=whole, world_size=world_size, keep_batch=keep, accumulation=accumulation)


_WHEEL_CURE = "Correct the floor, the grid or the values (on the command line, say, ladder.wheels.{name}.floor=...)."
_ASK_ONLY = ("accumulation",)


def _turning(recipe: Recipe) -> list[str]:
    """Names of the wheels of this ladder, fastest first. Wheels that are asked but not in ``ladder.order`` come last and stay as asked."""
    turned = [name for name in recipe.ladder.order if name in recipe.ask]
    return turned + [name for name in {MICRO_BATCH: None, **recipe.ask} if name not in (*turned, *_ASK_ONLY)]


def _ask_faults(adapter: Adapter) -> list[Fault]:
    """Finds what is wrong with the names and values under ``ask`` and the names under ``ladder``."""
    recipe = adapter.recipe
    wheels = {*adapter.wheels, *(name for name, rule in recipe.ladder.wheels.items() if rule.argument)}
    known = wheels | set(_ASK_ONLY)
    faults = [fault for name, value in recipe.ask.items() if (fault := _value_fault(name, value, adapter, known)) is not None]
    if recipe.ask.get(MICRO_BATCH) is None and not adapter.general:
        faults.append(Fault(key="ask.micro_batch", found="no value is set", cure="Say which micro-batch is wanted: ask.micro_batch=16."))
    named = [*((name, "ladder.order") for name in recipe.ladder.order), *((name, f"ladder.wheels.{name}") for name in recipe.ladder.wheels)]
    for name, key in named:
        if name not in wheels:
            cure = f"{did_you_mean(name, wheels)}Known: {', '.join(sorted(wheels))}; your own needs ladder.wheels.{name}.argument."
            faults.append(Fault(key=key, found=f"unknown wheel {name!r}", cure=cure))
    for name in {name for name in recipe.ladder.order if recipe.ladder.order.count(name) > 1}:
        faults.append(Fault(key="ladder.order", found=f"wheel {name!r} stands twice", cure="Name each wheel once."))
    return faults


MOST = 2**20
"""Largest micro-batch or accumulation; more is taken to be a slip (each of its divisors would have to be looked at)."""


def _value_fault(name: str, value: Value, adapter: Adapter, known: set[str]) -> Fault | None:
    key = f"ask.{name}"
    if name not in known:
        own = "" if adapter.general else " The trainer's own arguments stand under trainer.args."
        cure = f"{did_you_mean(name, known)}Known: {', '.join(sorted(known))}.{own}"
        return Fault(key=key, found=f"{adapter.name} has no wheel of that name", cure=cure)
    if value is None:
        return None
    if name in (MICRO_BATCH, *_ASK_ONLY):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return Fault(key=key, found=f"{value!r} is not a whole number of at least 1", cure=f"For example {key}=16.")
        if value > MOST:
            return Fault(key=key, found=f"{value} is more than {MOST:,}, the most that is looked at", cure=f"For example {key}=16.")
    elif name in adapter.wheels and not _is(value, adapter.wheels[name]):
        return Fault(key=key, found=f"{value!r} is not {_words(adapter.wheels[name])}", cure=adapter.wheels[name].help)
    return None


def _wheel(name: str, adapter: Adapter, effective: int) -> Wheel:
    """One wheel with its values. Raises ValueError with a sentence for people."""
    recipe = adapter.recipe
    spec = adapter.wheels.get(name)
    asked = recipe.ask.get(name)
    rule = _merged(recipe.ladder.wheels.get(name), spec.rule if spec else WheelRule(), asked)
    acts_in = rule.acts_in or (spec.acts_in if spec else "both")
    values: tuple[Value, ...]
    if name not in recipe.ladder.order or (name == MICRO_BATCH and asked is None):
        values = (asked,)
    elif name == MICRO_BATCH:
        values = _micro_batches(asked, rule, effective, keep=recipe.ladder.keep_batch)
    elif rule.values is not None:
        values = (asked, *_after(asked, rule.values))
    elif rule.grid is not None:
        values = _sizes(name, asked, rule)
    else:
        values = (asked, *adapter.lesser(name, asked, floor=rule.floor))
    if spec is not None and (wrong := [value for value in values[1:] if value is not None and not _is(value, spec)]):
        raise ValueError(f"{wrong[0]!r} is not {_words(spec)}")
    return Wheel(name=name, values=values, acts_in=acts_in)


def _merged(said: WheelRule | None, default: WheelRule, asked: Value) -> WheelRule:
    """The recipe's rule; what it leaves out is the adapter's. The adapter's floor never forbids the asked value."""
    if isinstance(default.floor, int) and isinstance(asked, int) and default.floor > asked:
        default = default.model_copy(update={"floor": asked})
    return default if said is None else default.model_copy(update=said.model_dump(exclude_none=True))


def _after(asked: Value, values: Sequence[Value]) -> tuple[Value, ...]:
    """The fall-back values after ``asked``: those behind it if it is in the list; else, of falling (rising) numbers, the lower (higher)."""
    if asked in values:
        values = values[list(values).index(asked) + 1 :]
    elif len(values) > 1 and all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (asked, *values)):
        falls = values[0] > values[-1]  # type: ignore[operator]
        values = [value for value in values if (value < asked) == falls]  # type: ignore[operator]
    return tuple(dict.fromkeys(values))


def _micro_batches(asked: Value, rule: WheelRule, effective: int, *, keep: bool) -> tuple[int, ...]:
    assert isinstance(asked, int)
    floor = whole_floor(rule.floor, asked=asked)
    if rule.values is None:
        return divisors_down(asked, of=effective, floor=floor) if keep else (asked, *halves_down(asked, floor=floor))
    chosen = _after(asked, rule.values)
    for value in chosen:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < asked or (keep and effective % value):
            allowed = ", ".join(map(str, divisors_down(asked, of=effective)))
            raise ValueError(f"micro-batch {value!r} does not keep the effective batch at {effective}; these do: {allowed}")
    return (asked, *(value for value in chosen if isinstance(value, int) and value >= floor))


def _sizes(name: str, asked: Value, rule: WheelRule) -> tuple[int, ...]:
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise ValueError(f"{name} {asked!r} is not a whole number, so no sizes below it can be derived")
    grid = rule.grid or 1
    floor = whole_floor(rule.floor, asked=asked, default=min(grid, asked))
    return sizes_down(asked, floor=floor, grid=grid, ratio=rule.ratio or 0.8)


def _is(value: Value, spec: WheelSpec) -> bool:
    types = spec.type if isinstance(spec.type, tuple) else (spec.type,)
    return type(value) in types or (float in types and type(value) is int)


def _words(spec: WheelSpec) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return " or ".join(names[one] for one in (spec.type if isinstance(spec.type, tuple) else (spec.type,)))
