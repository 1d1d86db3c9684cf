"""Configuration files in YAML and JSON: their keys and values; and their text with other values.

Values are replaced in the text, so that comments, order, anchors and numbers that another parser reads otherwise (1e-4) stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

SUFFIXES = (".yaml", ".yml", ".json")
_SMALL_BYTES = 2**16


class NoSuchKey(KeyError):
    """The file doesn't have the key."""


class _Lenient(yaml.SafeLoader):
    """Reads the shape of files with tags of other people's (!!python/tuple); what they would construct doesn't matter here."""


_Lenient.add_multi_constructor("", lambda loader, _, node: getattr(loader, f"construct_{node.id}")(node))


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields dotted keys and values; a list is one."""
    if isinstance(value, Mapping):
        for key, inside in value.items():
            yield from leaves(inside, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, value


def edited(text: str, changes: Mapping[str, Any]) -> str:
    """The text with the values of ``changes`` at their dotted keys. Raises NoSuchKey."""
    for key, value in changes.items():
        text = _marked(text, key, value)
    return text


def _marked(text: str, key: str, value: Any) -> str:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for part in key.split("."):
        found = [inside for name, inside in node.value if name.value == part] if isinstance(node, yaml.MappingNode) else []
        if not found:
            raise NoSuchKey(key)
        node = found[-1]
    assert node is not None
    before, after = text[: node.start_mark.index], text[node.end_mark.index :]
    spelled = json.dumps(value)
    if node.start_mark.index == node.end_mark.index:  # "key:" with nothing behind it
        spelled = f" {spelled}"
    elif isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) and not node.flow_style:
        spelled += "\n"  # a block ends where the next key begins
        indent = re.search(r"[ \t]*\Z", text[: node.end_mark.index])
        spelled += indent.group() if indent and after else ""
    return f"{before}{spelled}{after}"


_FLAGS = frozenset(("config", "configs", "cfg", "c", "conf", "base", "config_file", "config_files", "config_path"))


def named(words: Sequence[str]) -> str | None:
    """The configuration file that a command line names: the one after a flag that says so (``--config a.yaml``), else the one that stands
    alone, else the only such file among the words. Of several none is read, since the script decides how they go together; nor is one that
    the script resolves itself, or one that takes in others: a changed copy elsewhere would not find them."""
    flagged, alone, all_of_them, flag = list[str](), list[str](), list[str](), ""
    for word in words:
        name, equals, value = word.partition("=")
        bare = name.lstrip("-").replace("-", "_")
        is_flag = name.startswith("-") or (bool(equals) and bare in _FLAGS)
        flag = bare if is_flag else flag
        path = value if is_flag else word
        if Path(path).suffix in SUFFIXES and Path(path).is_file():
            all_of_them.append(path)
            if flag in _FLAGS:
                flagged.append(path)
            elif not flag:
                alone.append(path)
    found = flagged or alone or all_of_them
    return found[0] if len(set(found)) == 1 and not _takes_in_others(found[0]) else None


def beside(path: Path) -> dict[str, str]:
    """Name -> text of the other small configuration files in its folder: a script may look for them there (``base.json``)."""
    found = {}
    for other in sorted(path.parent.iterdir()):
        if other.name != path.name and other.suffix in (*SUFFIXES, ".toml") and other.is_file() and other.stat().st_size <= _SMALL_BYTES:
            with suppress(UnicodeDecodeError):
                found[other.name] = other.read_text(encoding="utf-8")
    return found


def contents(path: str | Path) -> Any:
    """A file as plain values. ValueError where it can't be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return json.loads(text) if Path(path).suffix == ".json" else yaml.load(text, Loader=_Lenient)
    except (OSError, yaml.YAMLError, json.JSONDecodeError) as error:
        raise ValueError(str(error).splitlines()[0]) from error


def held_if(path: str | Path | None) -> Any:
    """A file as plain values; an empty mapping where there is none, or it can't be read, which its reader says itself."""
    with suppress(ValueError):
        return contents(path) if path is not None else {}
    return {}


_INCLUDES = frozenset(("_BASE_", "_base_", "__include__"))
"""Keys by which a file takes others in: Detectron2's and fvcore's, mmengine's, D-FINE's."""


def _takes_in_others(path: str) -> bool:
    values = held_if(path)
    return isinstance(values, Mapping) and not _INCLUDES.isdisjoint(values)


def replaced(word: str, path: str, copy: str) -> str:
    """A word of the command, with the copy in the place of the file that it names."""
    flag, equals, value = word.partition("=")
    if word == path:
        return copy
    return f"{flag}={copy}" if equals and value == path else word
