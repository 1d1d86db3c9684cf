"""The schema that editors get: every recipe here keeps to it, its keys are those of the gate, and each says what it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from autofit_launcher.config.schema import of_a_file
from tests.helpers.places import ROOT

SCHEMA = of_a_file()
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "array": list, "object": dict}


def faults(value: Any, told: dict[str, Any], place: str = "") -> Iterator[str]:
    """Where a value doesn't keep to a schema; as much of JSON Schema as ours uses."""
    if "$ref" in told:
        told = SCHEMA["$defs"][told["$ref"].rpartition("/")[2]]
    if "anyOf" in told:
        if all(list(faults(value, one, place)) for one in told["anyOf"]):
            yield f"{place}: {value!r}"
        return
    if isinstance(value, str) and "${" in value:
        return
    kinds = told.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(isinstance(value, TYPES[kind]) and not (kind != "boolean" and isinstance(value, bool)) for kind in kinds):
        yield f"{place}: {value!r} is no {kinds}"
    elif "enum" in told and value not in told["enum"]:
        yield f"{place}: {value!r} is none of {told['enum']}"
    elif isinstance(value, dict):
        known, others = told.get("properties", {}), told.get("additionalProperties", True)
        for key, one in value.items():
            if key not in known and others is False:
                yield f"{place}.{key} is unknown"
            else:
                yield from faults(one, known.get(key, others if isinstance(others, dict) else {}), f"{place}.{key}")


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_keeps_to_the_schema(path: Any) -> None:
    assert list(faults(yaml.safe_load(path.read_text(encoding="utf-8")), SCHEMA)) == []


@pytest.mark.parametrize(
    ("said", "place"),
    [({"laddr": {}}, ".laddr"), ({"device": {"memry": 1}}, ".device.memry"), ({"device": {"share": "yes"}}, ".device.share"),
     ({"device": {"when_taken": "go"}}, ".device.when_taken"), ({"trial": {"steps": "two"}}, ".trial.steps")],
)  # fmt: skip
def test_a_slip_is_seen_where_it_stands(said: dict[str, Any], place: str) -> None:
    assert [fault.startswith(place) for fault in faults(said, SCHEMA)] == [True]


def test_sizes_are_written_as_people_write_them_and_each_key_says_what_it_means() -> None:
    device = SCHEMA["$defs"]["DeviceRules"]["properties"]
    assert not list(faults({"device": {"memory": "16GiB"}}, SCHEMA)) and not list(faults({"device": {"memory": None}}, SCHEMA))
    assert all(key.get("description") for key in device.values())
