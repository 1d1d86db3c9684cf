"""A script of Hydra's and the words it is given -> what its configuration says, as settings in Hydra's own words. Read, never composed.

The primary configuration's defaults list is followed one level down, with the options that the command line picks; interpolations and
what a group's file takes from others are left out. A Lightning trainer among the groups brings its word for accumulation with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from launcher.trainers.script import configs
from launcher.trainers.script.flags import Flag
from launcher.trainers.script.names import meaning
from launcher.trainers.script.sources import parsed

ACCUMULATION = "accumulate_grad_batches"


def settings(script: Path, words: Sequence[str]) -> list[Flag]:
    """Every key of the script's composed configuration that could be found, spelled ``key=``; nothing where it isn't Hydra's."""
    main = _main(script)
    if main is None:
        return []
    folder, name = main
    primary = _loaded(folder / f"{Path(name).stem}.yaml")
    if not isinstance(primary, dict):
        return []
    said = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    found = list(_keys({key: value for key, value in primary.items() if key != "defaults"}, "", name))
    for group, option in _chosen(primary.get("defaults") or [], said):
        held = _with_its_own(folder / group, option)
        found += _keys(held, group.replace("/", "."), f"{group}/{option}.yaml")
        if _is_lightning(held) and ACCUMULATION not in held:
            found.append(Flag(spelling=f"++{group}.{ACCUMULATION}=", default=1, where="Lightning"))
    return found


def _main(script: Path) -> tuple[Path, str] | None:
    """(folder, name) of the primary configuration that ``@hydra.main`` names, both as literals."""
    _, tree = parsed(script)
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hydra.main", "main"):
            said = {keyword.arg: keyword.value.value for keyword in node.keywords if isinstance(keyword.value, ast.Constant)}
            path, name = said.get("config_path"), said.get("config_name")
            if isinstance(path, str) and isinstance(name, str):
                return script.parent / path, name
    return None


def _chosen(defaults: Sequence[Any], said: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(group, option) of a defaults list, with the command line's choices."""
    for entry in defaults:
        for key, option in entry.items() if isinstance(entry, dict) else ():
            group = str(key).removeprefix("override ").removeprefix("optional ").lstrip("/").partition("@")[0]
            picked = said.get(group, option)
            if isinstance(picked, str) and picked != "null" and not group.startswith("hydra"):
                yield group, Path(picked).stem


def _with_its_own(folder: Path, option: str) -> dict[str, Any]:
    """A group's file over those of its own folder that its defaults list names."""
    held = _loaded(folder / f"{option}.yaml")
    if not isinstance(held, dict):
        return {}
    below: dict[str, Any] = {}
    for name in held.get("defaults") or ():
        if isinstance(name, str) and name not in ("_self_", option) and isinstance(base := _loaded(folder / f"{name}.yaml"), dict):
            below |= base
    return {key: value for key, value in {**below, **held}.items() if key != "defaults"}


def _is_lightning(held: dict[str, Any]) -> bool:
    target = str(held.get("_target_", ""))
    return target.startswith(("lightning.", "pytorch_lightning.")) and target.endswith(".Trainer")


_LENGTHS = ("segment", "sequence_length", "image_size")


def _keys(held: Any, prefix: str, where: str) -> Iterator[Flag]:
    """The numbers and switches; a length outside of the data's group is a layer's (``model.net.input_size``)."""
    for key, value in configs.leaves(held, prefix):
        fixed = meaning(key.rpartition(".")[2]) in _LENGTHS and not key.startswith(("data", "dataset"))
        if isinstance(value, (bool, int, float)) and not fixed:
            yield Flag(spelling=f"{key}=", default=value, where=where)


def _loaded(path: Path) -> Any:
    try:
        return configs.load(path.read_text(encoding="utf-8"), ".yaml")
    except (OSError, ValueError):
        return None
