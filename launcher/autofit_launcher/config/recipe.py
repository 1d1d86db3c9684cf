"""Checks a composed configuration: returns a frozen ``Recipe``, or every fault at once. Past this module nothing is OmegaConf's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers import oc
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from autofit_launcher.common import files
from autofit_launcher.common.words import is_secret, masked
from autofit_launcher.config.schema import Recipe, WheelRule
from autofit_launcher.errors import COMMAND_LINE, PLACE, BadInput, Fault, did_you_mean
from autofit_launcher.paths import short


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """The origin of the keys of a composed configuration: the command line, or a file."""

    overrides: tuple[str, ...] = ()
    """The command line's overrides, as typed."""
    file: Path | None = None
    """The recipe's file. None: the recipe is in none, since it was made from a command."""

    def placed(self, faults: Iterable[Fault]) -> list[Fault]:
        """The faults, each with the file or command line that its key came from."""
        return [fault if fault.where else replace(fault, where=self.where(fault.key)) for fault in faults]

    def where(self, key: str) -> str:
        """The place that gave ``key`` its value: "command line", also where that chose its group, or else the recipe."""
        for override in self.overrides:
            name = override.lstrip("+~").partition("=")[0]
            if key == name or name.startswith(f"{key}.") or key.startswith(f"{name}."):
                return COMMAND_LINE
        return short(self.file) if self.file is not None else PLACE


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A recipe that was checked by the schema, with the faults found so far. It may be run only if there are none.

    ``recipe`` is None only if nothing could be made of the configuration. For single wrong keys it has their defaults, so that the rest can
    be checked and *all* faults told at once.
    """

    recipe: Recipe | None
    faults: tuple[Fault, ...]
    provenance: Provenance

    def needed(self) -> Recipe:
        """The recipe. Raises BadInput where nothing could be made."""
        if self.recipe is None:
            raise BadInput(self.faults)
        return self.recipe


def checked(said: Any, provenance: Provenance) -> Draft:
    """Validates by the schema what was composed, or what ``as_yaml`` has written."""
    secrets = dict[str, str]()

    def env(name: str, *default: Any) -> Any:
        if os.environ.get(name) and (is_secret(name) or masked(os.environ[name]) != os.environ[name]):
            secrets[os.environ[name]] = name
        return oc.env(name, *default)

    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    try:
        config = OmegaConf.create(said)
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
    return _validated(plain, faults, provenance, secrets)


def _hidden(text: str, secrets: Mapping[str, str]) -> str:
    """The text as an interpolation is escaped, with secrets of the environment as such. What else it has from there stays as it is: what
    goes on is the same training, whatever is set by then."""
    text = re.sub(r"(\\*)\$\{", lambda found: f"{2 * found[1]}\\${{", text)
    for value, name in secrets.items():
        text = text.replace(value, f"${{oc.env:{name}}}")
    return text


def _validated(plain: dict[Any, Any], faults: list[Fault], provenance: Provenance, secrets: Mapping[str, str]) -> Draft:
    missing = {fault.key for fault in faults}
    for _ in range(3):  # a dropped key can lay bare a fault behind it (a missing value, say)
        try:
            recipe = Recipe.model_validate_json(json.dumps(plain))
            recipe._secrets = secrets
            return Draft(recipe=recipe, faults=tuple(faults), provenance=provenance)
        except ValidationError as error:
            details = error.errors()
        except (TypeError, ValueError) as error:
            faults.append(Fault(key="", found=f"a value that YAML and JSON don't share: {error}", cure="Quote it as a text."))
            break
        faults += [fault for detail in details if (fault := _fault(detail, provenance)).key not in missing]
        missing |= {fault.key for fault in faults}
        dropped = [_dropped(plain, detail["loc"]) for detail in details]
        if not any(dropped):
            break
    return Draft(recipe=None, faults=tuple(faults), provenance=provenance)


def _dropped(plain: dict[Any, Any], loc: Sequence[str | int]) -> bool:
    """Takes the faulty key out, so that its default stands in for it; False where there is nothing to take out."""
    if len(loc) > 1 and isinstance(inside := plain.get(loc[0]), dict):
        return _dropped(inside, loc[1:])
    there = bool(loc) and loc[0] in plain
    if there:
        del plain[loc[0]]
    return there


def _fault(detail: ErrorDetails, provenance: Provenance) -> Fault:
    """One of pydantic's errors, in the house's words."""
    loc = [part for part in detail["loc"] if part not in ("bool", "int", "float", "str", "constrained-int")]
    key = ".".join(map(str, loc))
    value = detail["input"]
    if detail["type"] == "extra_forbidden":
        known = _fields_at(loc[:-1])
        found = f"no such key (value {value!r})"
        cure = f"{did_you_mean(str(loc[-1]), known)}Known here: {', '.join(sorted(known))}."
    elif detail["type"] == "missing":
        found, cure = "no value is set", f"Give one: {key}=..."
    else:
        words = detail["msg"].removeprefix("Value error, ")
        found, cure = f"found {value!r}", words if words.endswith("?") else f"{words}."
    return Fault(key=key, where=provenance.where(key), found=found, cure=cure)


def _fields_at(loc: Sequence[str | int]) -> list[str]:
    model: Any = Recipe
    for part in loc:
        fields = getattr(model, "model_fields", {})
        model = fields[part].annotation if part in fields else WheelRule
    return list(model.model_fields)


def as_yaml(recipe: Recipe) -> str:
    """The recipe as YAML, composed and validated, for the run folder: sizes in bytes, secrets of the environment as they were written."""
    said = files.plain(recipe.model_dump(mode="json"), text=partial(_hidden, secrets=recipe._secrets))
    return yaml.safe_dump(said, sort_keys=False, allow_unicode=True)
