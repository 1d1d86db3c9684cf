"""The JSON schema of a recipe's file, made of the models in ``schema``: for editors, which complete and check by it."""

from __future__ import annotations

from typing import Any

from autofit_launcher.config.schema import Recipe

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFAULTS = {
    "type": "array",
    "description": "Groups that this recipe takes other options of: [override /ladder: keep_quality, _self_].",
    "items": {"anyOf": [{"const": "_self_"}, {"type": "object"}, {"type": "string"}]},
}


def of_a_file() -> dict[str, Any]:
    """A recipe says only what differs from the groups in conf/: no key is required of a file."""
    told = Recipe.model_json_schema()
    for part in (told, *told["$defs"].values()):
        part.pop("required", None)
    told["properties"]["defaults"] = _DEFAULTS
    return {"$schema": DIALECT, **told, "title": "A recipe of autofit's"}
