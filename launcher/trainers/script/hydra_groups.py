"""What the configuration of a script that uses Hydra says, as settings in Hydra's own words. Read, never composed.

The primary configuration's defaults list is followed one level down, with the options that the command line picks and those that a file of
the global package (``experiment=mine``) puts in their place; what comes later wins, as in Hydra. Interpolations are left out. A Lightning
trainer among the groups brings its word for accumulation with it.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from launcher.adapter.python_source import parsed
from launcher.adapter.wheel_names import meaning, unit
from launcher.trainers.script import configs
from launcher.trainers.script.declared import Flag

ACCUMULATION = "accumulate_grad_batches"


def settings(script: Path, words: Sequence[str]) -> list[Flag]:
    """Every key of the script's composed configuration that could be found, spelled ``key=``; nothing where it isn't Hydra's."""
    main = _main(script, words)
    primary = _loaded(main) if main is not None else None
    if main is None or not isinstance(primary, dict):
        return []
    folder, said = main.parent, dict(word.lstrip("+").split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    merged: dict[str, Flag] = {}
    for group, option in _overridden(folder, _chosen(folder, primary.get("defaults") or [], said), said):
        held, where = (_with_its_own(folder / group, option), f"{group}/{option}.yaml") if group else (primary, main.name)
        prefix = "" if not group or _is_global(folder / group / f"{option}.yaml") else group.replace("/", ".")
        own = {key: value for key, value in held.items() if key != "defaults"}
        merged |= {flag.spelling: flag for flag in _keys(own, prefix, where)}
        if _is_lightning(held) and ACCUMULATION not in held:
            merged[f"++{group}.{ACCUMULATION}="] = Flag(spelling=f"++{group}.{ACCUMULATION}=", default=1, where="Lightning")
    return [flag for spelling, flag in merged.items() if not (spelling.startswith("++") and spelling.lstrip("+") in merged)]


def _main(script: Path, words: Sequence[str]) -> Path | None:
    """The primary configuration's file: as the command names it (``--config-name``), else as ``@hydra.main`` does, both as literals. Where
    the folder is computed, the only file of that name near the script."""
    _, tree = parsed(script)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hydra.main", "main"):
            literals = {keyword.arg: keyword.value.value for keyword in node.keywords if isinstance(keyword.value, ast.Constant)}
            name = _option(words, "--config-name", "-cn") or literals.get("config_name")
            if not isinstance(name, str):
                continue
            file = f"{name.removesuffix('.yaml').removesuffix('.yml')}.yaml"
            path = _option(words, "--config-path", "-cp") or literals.get("config_path")
            if isinstance(path, str):
                return script.parent / path / file
            return _near(script, file) if any(keyword.arg == "config_path" for keyword in node.keywords) else script.parent / file
    return None


def _option(words: Sequence[str], *names: str) -> str:
    """The value of an option of Hydra's own; empty where the command doesn't say it."""
    for word, after in itertools.pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else after
    return ""


def _near(script: Path, name: str) -> Path | None:
    """The only file of that name below the script's folder, or below one of the three above it."""
    for folder in (script.parent, *list(script.resolve().parents)[1:4]):
        found = list(itertools.islice(folder.rglob(name), 2))
        if found:
            return found[0] if len(found) == 1 else None
    return None


SELF = ("", "")
"""Stands for the primary configuration's own keys among its groups."""


def _chosen(folder: Path, defaults: Sequence[Any], said: dict[str, str]) -> list[tuple[str, str]]:
    """(group, option) of a defaults list, in its order, with the command line's choices; what that adds comes last."""
    found: list[tuple[str, str]] = []
    listed = set()
    for entry in defaults:
        if entry == "_self_":
            found.append(SELF)
        for key, option in entry.items() if isinstance(entry, dict) else ():
            group = str(key).removeprefix("override ").removeprefix("optional ").lstrip("/").partition("@")[0]
            listed.add(group)
            picked = said.get(group, option)
            if isinstance(picked, str) and picked != "null" and not group.startswith("hydra"):
                found.append((group, _stem(picked)))
    if SELF not in found:  # as Hydra has it since 1.1
        found.append(SELF)
    added = [(key, _stem(value)) for key, value in said.items() if key not in listed and (folder / key / f"{_stem(value)}.yaml").is_file()]
    return [*found, *added]


def _stem(option: str) -> str:
    return option.removesuffix(".yaml")


def _overridden(folder: Path, chosen: Sequence[tuple[str, str]], said: dict[str, str]) -> list[tuple[str, str]]:
    """The choices with those that files of the global package put in their place; what the command line picks stays."""
    instead: dict[str, str] = {}
    for group, option in chosen:
        held = _loaded(folder / group / f"{option}.yaml") if group else None
        entries = (held.get("defaults") or ()) if isinstance(held, dict) else ()
        listed = [(str(key), other) for entry in entries if isinstance(entry, dict) for key, other in entry.items()]
        instead |= {
            key.removeprefix("override /"): _stem(other) for key, other in listed if key.startswith("override /") and isinstance(other, str)
        }
    return [(group, option if group in said else instead.get(group, option)) for group, option in chosen]


def _is_global(path: Path) -> bool:
    """Whether a file's keys belong to the whole configuration and not to its group."""
    try:
        return re.search(r"^#\s*@package\s+_global_", path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except (OSError, ValueError):
        return False


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
        if (isinstance(value, (bool, int, float)) and not fixed) or unit(key.rpartition(".")[2]):
            yield Flag(spelling=f"{key}=", default=value, where=where)


def _loaded(path: Path) -> Any:
    try:
        return configs.load(path.read_text(encoding="utf-8"), ".yaml")
    except (OSError, ValueError):
        return None
