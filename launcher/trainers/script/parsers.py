"""A script -> every flag that it takes: those of its own source, else of the nearest local modules that it imports. Read, never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.trainers.script import flags, signatures
from launcher.trainers.script.flags import Flag
from launcher.trainers.script.sources import parsed

HF_DEFAULTS: Mapping[str, Any] = {
    "--per_device_train_batch_size": 8,
    "--per_device_eval_batch_size": 8,
    "--gradient_accumulation_steps": 1,
    "--gradient_checkpointing": False,
}
"""What TrainingArguments says where the command line doesn't (transformers 5)."""

_MOST_FILES = 200
"""Local modules that are looked at, at most."""


def of_script(path: Path) -> list[Flag]:
    """What the script declares. Where it has no parser of its own (``from options import get_args``), what the modules that it imports
    do, the nearest ones: theirs is the command line then."""
    seen, layer = {path.resolve()}, [path]
    while layer and len(seen) <= _MOST_FILES:
        found = [flag for file in layer for flag in of_source(file)]
        if found:
            return found
        below = [near for file in layer for near in _imported(file, path.parent)]
        layer = [near for near in dict.fromkeys(below) if near not in seen]
        seen.update(layer)
    return []


def in_tokens(path: Path | None, name: str) -> bool:
    """Whether a line of the script that speaks of a setting speaks of tokens, too: ``help="total batch size in tokens"``."""
    source = parsed(path)[0] if path is not None else ""
    spelled = re.compile(rf"\b{'[-_]'.join(map(re.escape, re.split('[-_]', name.strip('-'))))}\b")
    return any("token" in line.lower() and spelled.search(line) for line in source.splitlines())


def in_order(path: Path) -> bool:
    """Whether the script's parser takes flags and configuration files in their order, so that a file overrules a flag before it."""
    return any(word in parsed(path)[0] for word in ("LightningCLI", "jsonargparse"))


_NOMINAL = (
    re.compile(r"^\s*(?:self\.)?(?:nbs|nominal_batch(?:_size)?)\s*=\s*(\d+)", re.MULTILINE),
    re.compile(r"accumulate\w*\s*=.*\bround\(\s*(\d+)\s*/\s*(?:\w+\.)*\w*batch_?size\s*\)"),
)
"""How scripts of YOLOv5's kind say the batch up to which they accumulate by themselves."""


def nominal_batch(path: Path) -> int | None:
    """The batch up to which the script, or a local module that it imports, accumulates by itself; None where it says none."""
    for file in files_of(path):
        source, _ = parsed(file)
        if "accumulate" in source and (found := next((match for one in _NOMINAL if (match := one.search(source))), None)):
            return int(found[1]) or None
    return None


def batch_in_source(path: Path) -> tuple[int, str] | None:
    """(batch size, file) of the loaders that shuffle, where it stands in the script's source, or else in a local module that it imports,
    as a number or a name that is one; None where there is no such loader, or where a file has different ones."""
    for file in files_of(path):
        _, tree = parsed(file)
        sizes = flags.loaders_of(tree) if tree is not None else []
        if sizes:
            return (sizes[0], file.name) if len(set(sizes)) == 1 else None
    return None


def of_source(path: Path) -> list[Flag]:
    """Every flag that one file declares: options of argparse, click, typer and absl, parameters and fields that become some,
    TrainingArguments, and a nanoGPT-like configurator's names."""
    source, tree = parsed(path)
    if tree is None:
        return []
    found = [flag for node in ast.walk(tree) if isinstance(node, ast.Call) and (flag := flags.of_call(node, path.name)) is not None]
    found += signatures.flags_of(tree, path.name)
    if re.search(r"\b(Seq2Seq)?TrainingArguments\b", source) and re.search(r"HfArgumentParser|TrlParser", source):
        found += [
            Flag(spelling=_switch_or(name, default), default=default, where="TrainingArguments") for name, default in HF_DEFAULTS.items()
        ]
    if "LightningCLI" in source:
        accumulation = Flag(spelling="--trainer.accumulate_grad_batches", default=1, where="Lightning")
        found += [accumulation, *signatures.of_lightning(tree, path.name)]
    if flags.configurable(source):
        found += flags.globals_of(tree, path.name)
    return found


def of_config(path: Path) -> list[Flag]:
    """The names that a nanoGPT-like configuration file, which is Python, sets."""
    _, tree = parsed(path)
    return flags.globals_of(tree, path.name) if tree is not None else []


def keywords_of(path: Path) -> Iterator[tuple[str, Any]]:
    """Dotted keys and numbers of a configuration file in Python as mmengine has it: ``train_dataloader = dict(batch_size=32)``."""
    _, tree = parsed(path)
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield from _inside(node.value, node.targets[0].id)


def _inside(node: ast.expr, prefix: str) -> Iterator[tuple[str, Any]]:
    """The same of one value, which may be a ``dict(...)`` or a display."""
    pairs: list[tuple[str, ast.expr]] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        pairs = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
    elif isinstance(node, ast.Dict):
        pairs = [(str(key.value), value) for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)]
    elif (value := flags.literal(node)) is not None:
        yield prefix, value
    for name, inner in pairs:
        yield from _inside(inner, f"{prefix}.{name}")


def files_of(path: Path) -> Sequence[Path]:
    """The script, and the local modules that it imports itself."""
    return (path, *dict.fromkeys(_imported(path, path.parent)))


def _imported(path: Path, root: Path) -> Iterator[Path]:
    """Files of the modules that ``path`` imports and that lie beside it, or below ``root`` or the working folder."""
    _, tree = parsed(path)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _files((path.parent, root, Path()), one.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            places: Sequence[Path] = (path.parent, root, Path())
            if node.level:
                places = [path.parent.joinpath(*[".."] * (node.level - 1))]
            parts = node.module.split(".") if node.module else []
            yield from _files(places, parts)
            for one in node.names:
                yield from _files(places, [*parts, one.name])


def _files(places: Sequence[Path], parts: Sequence[str]) -> Iterator[Path]:
    """The file of a module, or of its package, in the first place that has it."""
    for place in places if parts else ():
        stem = place.joinpath(*parts)
        for file in (stem.with_suffix(".py"), stem / "__init__.py"):
            if file.is_file():
                yield file.resolve()
                return


def _switch_or(name: str, default: Any) -> str:
    return f"switch:{name}" if default is False else name
