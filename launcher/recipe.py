"""Composed configuration -> a frozen Recipe, or every fault at once. OmegaConf goes no further than this module."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from launcher.errors import BadInput, Fault
from launcher.ladder import MICRO_BATCH, Ladder, Wheel, build, divisors_down, sizes_down
from launcher.schema import Recipe, Value, WheelRule

if TYPE_CHECKING:
    from launcher.adapters.base import Adapter, WheelSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Where the keys of a composed configuration came from."""

    overrides: tuple[str, ...] = ()
    """The command line's overrides, as typed."""
    files: tuple[Path, ...] = ()
    """The YAML files that were composed, strongest first."""

    def placed(self, faults: Iterable[Fault]) -> list[Fault]:
        """The faults with the file or command line that their keys came from."""
        return [fault if fault.where else replace(fault, where=self.where(fault.key)) for fault in faults]

    def where(self, key: str) -> str:
        """The place that gave ``key`` its value: "command line", a file, or the first file where nothing says it."""
        for override in self.overrides:
            name = override.split("=", 1)[0].lstrip("+~").replace("/", ".")
            if name and (key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.")):
                return "command line"
        for file in self.files:
            if _says(file, key.split(".")):
                return _short(file)
        return _short(self.files[0]) if self.files else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A recipe that has been through the schema, with what is wrong with it so far.

    ``recipe`` is None only where nothing could be made of the configuration; where single keys were wrong it holds
    their defaults, so that the rest can still be checked and *all* faults be told at once. It may be run only where
    there is no fault.
    """

    recipe: Recipe | None
    faults: tuple[Fault, ...]
    provenance: Provenance


def read(config: DictConfig, provenance: Provenance) -> Draft:
    """Validates everything the schema can say."""
    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None) or ""
        fault = Fault(key=key, where=provenance.where(key), found=str(error).splitlines()[0], cure="Correct the interpolation.")
        return Draft(recipe=None, faults=(fault,), provenance=provenance)
    assert isinstance(plain, dict)
    plain.pop("hydra", None)
    faults = [
        Fault(key=key, where=provenance.where(key), found="no value is set", cure=f"Give one on the command line: {key}=...")
        for key in sorted(str(key) for key in OmegaConf.missing_keys(config) if not str(key).startswith("hydra"))
    ]
    missing = {fault.key for fault in faults}
    for _ in range(_MOST_MENDS):
        try:
            recipe = Recipe.model_validate_json(json.dumps(plain))
            return Draft(recipe=recipe, faults=tuple(faults), provenance=provenance)
        except ValidationError as error:
            details = error.errors()
        except (TypeError, ValueError) as error:
            faults.append(Fault(key="", found=f"a value that YAML and JSON don't share: {error}", cure="Quote it as a text."))
            break
        faults += [fault for detail in details if (fault := _fault(detail, provenance)).key not in missing]
        missing |= {fault.key for fault in faults}
        if not any([_dropped(plain, detail["loc"]) for detail in details]):
            break
    return Draft(recipe=None, faults=tuple(faults), provenance=provenance)


_MOST_MENDS = 3  # a dropped key can lay bare a fault behind it (a missing value, say)


def _dropped(plain: dict[str, Any], loc: Sequence[str | int]) -> bool:
    """Takes the faulty key out, so that its default stands in for it; False where there is nothing to take out."""
    node: Any = plain
    for at, part in enumerate(loc):
        inside = node.get(part) if isinstance(node, dict) else None
        last = at == len(loc) - 1 or not isinstance(inside, dict)
        if isinstance(node, dict) and part in node and last:
            del node[part]
            return True
        node = inside
    return False


def ladder(recipe: Recipe, adapter: Adapter) -> Ladder:
    """The recipe's ladder.

    Raises BadInput with all faults of ``ask`` and ``ladder``: unknown wheels, wrong types, impossible floors, values off their grid.
    """
    faults = _ask_faults(recipe, adapter)
    wheels: list[Wheel] = []
    effective = 0
    if not faults:
        accumulation = recipe.ask.get("accumulation") or adapter.accumulation(recipe)
        micro_batch = recipe.ask[MICRO_BATCH]
        assert isinstance(micro_batch, int) and isinstance(accumulation, int)
        effective = micro_batch * accumulation
        for name in _turning(recipe):
            try:
                wheels.append(_wheel(name, recipe, adapter, effective))
            except ValueError as error:
                faults.append(Fault(key=f"ladder.wheels.{name}", found=str(error), cure=_WHEEL_CURE))
    if faults:
        raise BadInput(faults)
    return build(wheels, effective_batch=effective)


_WHEEL_CURE = "Correct the floor, the grid or the values; `autofit ladder` shows what a ladder comes to."
_ASK_ONLY = ("accumulation",)


def _turning(recipe: Recipe) -> list[str]:
    """The wheels of this ladder, fastest first. What is asked but stands in no order stays as asked, as the slowest wheels."""
    fixed = [name for name in recipe.ask if name not in recipe.ladder.order and name not in _ASK_ONLY]
    return [name for name in recipe.ladder.order if recipe.ask.get(name) is not None or name in recipe.ask] + fixed


def _ask_faults(recipe: Recipe, adapter: Adapter) -> list[Fault]:
    known = {*adapter.wheels, *(name for name, rule in recipe.ladder.wheels.items() if rule.argument), *_ASK_ONLY}
    faults = []
    for name, value in recipe.ask.items():
        key = f"ask.{name}"
        if name not in known:
            faults.append(Fault(key=key, found=f"{adapter.name} has no wheel of that name", cure=f"{did_you_mean(name, known)}Known: {', '.join(sorted(known))}."))  # fmt: skip
        elif name in ("micro_batch", "accumulation"):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                faults.append(Fault(key=key, found=f"{value!r} is not a whole number of at least 1", cure=f"For example {key}=16."))
        elif name in adapter.wheels and value is not None and not _is(value, adapter.wheels[name]):
            faults.append(Fault(key=key, found=f"{value!r} is not {_words(adapter.wheels[name])}", cure=adapter.wheels[name].help))
    if recipe.ask.get(MICRO_BATCH) is None:
        faults.append(Fault(key="ask.micro_batch", found="no value is set", cure="Say which micro-batch is wanted: ask.micro_batch=16."))
    for name in (*recipe.ladder.order, *recipe.ladder.wheels):
        if name not in known:
            cure = f"{did_you_mean(name, known)}Known: {', '.join(sorted(known - set(_ASK_ONLY)))}; a wheel of your own needs ladder.wheels.{name}.argument."
            faults.append(Fault(key=f"ladder.wheels.{name}" if name in recipe.ladder.wheels else "ladder.order", found=f"unknown wheel {name!r}", cure=cure))  # fmt: skip
    for name in {name for name in recipe.ladder.order if recipe.ladder.order.count(name) > 1}:
        faults.append(Fault(key="ladder.order", found=f"wheel {name!r} stands twice", cure="Name each wheel once."))
    return faults


def _wheel(name: str, recipe: Recipe, adapter: Adapter, effective: int) -> Wheel:
    """One wheel with its values. ValueError says in words what can't be."""
    spec = adapter.wheels.get(name)
    rule = _merged(recipe.ladder.wheels.get(name), spec.rule if spec else WheelRule())
    asked = recipe.ask[name]
    acts_in = rule.acts_in or (spec.acts_in if spec else "both")
    values: tuple[Value, ...]
    if name not in recipe.ladder.order:
        values = (asked,)
    elif name == MICRO_BATCH:
        values = _micro_batches(asked, rule, effective)
    elif rule.values is not None:
        values = (asked, *_after(asked, rule.values))
    elif rule.grid is not None:
        values = _sizes(name, asked, rule)
    else:
        values = (asked, *_down_to(name, rule.floor, tuple(adapter.lesser(recipe, name, asked))))
    if spec is not None:
        for value in values[1:]:
            if value is not None and not _is(value, spec):
                raise ValueError(f"{value!r} is not {_words(spec)}")
    return Wheel(name=name, values=values, acts_in=acts_in)


def _merged(said: WheelRule | None, default: WheelRule) -> WheelRule:
    """The recipe's rule over the adapter's: what the recipe leaves out stays the adapter's."""
    return default if said is None else default.model_copy(update=said.model_dump(exclude_none=True))


def _after(asked: Value, values: Sequence[Value]) -> tuple[Value, ...]:
    """The fall-backs after ``asked``: all of them, or only those behind it where it is one of them."""
    at = list(values).index(asked) + 1 if asked in values else 0
    return tuple(dict.fromkeys(values[at:]))


def _micro_batches(asked: Value, rule: WheelRule, effective: int) -> tuple[int, ...]:
    assert isinstance(asked, int)
    floor = rule.floor if rule.floor is not None else 1
    if isinstance(floor, bool) or not isinstance(floor, int) or not 1 <= floor <= asked:
        raise ValueError(f"floor {floor!r} is not a whole number from 1 to the asked micro-batch {asked}")
    if rule.values is None:
        return divisors_down(asked, of=effective, floor=floor)
    chosen = _after(asked, rule.values)
    for value in chosen:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < asked or effective % value:
            allowed = ", ".join(map(str, divisors_down(asked, of=effective)))
            raise ValueError(f"micro-batch {value!r} does not keep the effective batch at {effective}; these do: {allowed}")
    return (asked, *(value for value in chosen if isinstance(value, int) and value >= floor))


def _sizes(name: str, asked: Value, rule: WheelRule) -> tuple[int, ...]:
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise ValueError(f"{name} {asked!r} is not a whole number, so no sizes below it can be derived")
    grid = rule.grid or 1
    floor = rule.floor if rule.floor is not None else grid
    if isinstance(floor, bool) or not isinstance(floor, int) or floor < 1:
        raise ValueError(f"floor {floor!r} is not a whole number of at least 1")
    if floor > asked:
        raise ValueError(f"floor {floor} is above the asked {name} {asked}")
    return sizes_down(asked, floor=floor, grid=grid, ratio=rule.ratio or 0.8)


def _down_to(name: str, floor: Value, values: tuple[Value, ...]) -> tuple[Value, ...]:
    if floor is None:
        return values
    if floor not in values:
        raise ValueError(f"floor {floor!r} is none of the smaller {name} values: {', '.join(map(str, values)) or 'there are none'}")
    return values[: values.index(floor) + 1]


def _is(value: Value, spec: WheelSpec) -> bool:
    types = spec.type if isinstance(spec.type, tuple) else (spec.type,)
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, types) or (float in types and isinstance(value, int))


def _words(spec: WheelSpec) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    types = spec.type if isinstance(spec.type, tuple) else (spec.type,)
    return " or ".join(names[one] for one in types)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """"Did you mean 'x'? ", or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}? " if close else ""


def _dotted(loc: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in loc)


def _fault(detail: ErrorDetails, provenance: Provenance) -> Fault:
    """One of pydantic's errors, in the house's words."""
    loc = [part for part in detail["loc"] if part not in ("bool", "int", "float", "str", "constrained-int", "function-after[_size(), union[int,str,none]]")]
    key = _dotted(loc)
    value = detail["input"]
    if detail["type"] == "extra_forbidden":
        known = _fields_at(loc[:-1])
        found = f"no such key (value {value!r})"
        cure = f"{did_you_mean(str(loc[-1]), known)}Known here: {', '.join(sorted(known))}."
    elif detail["type"] == "missing":
        found, cure = "no value is set", f"Give one: {key}=..."
    else:
        found, cure = f"found {value!r}", f"{detail['msg'].removeprefix('Value error, ')}."
    return Fault(key=key, where=provenance.where(key), found=found, cure=cure)


def _fields_at(loc: Sequence[str | int]) -> list[str]:
    model: Any = Recipe
    for part in loc:
        field = getattr(model, "model_fields", {}).get(str(part))
        if field is None:
            return list(WheelRule.model_fields)
        model = field.annotation
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else list(WheelRule.model_fields)


def _says(file: Path, parts: Sequence[str]) -> bool:
    """Whether a YAML file itself gives the key (its package header decides where its keys go)."""
    try:
        node: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return False
    if "@package _global_" not in file.read_text(encoding="utf-8") and file.parent.name == parts[0]:
        parts = parts[1:]
    for part in parts:
        if not isinstance(node, Mapping) or part not in node:
            return False
        node = node[part]
    return True


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def as_yaml(recipe: Recipe) -> str:
    """The recipe as it was composed and validated, for the run folder; sizes in bytes."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
