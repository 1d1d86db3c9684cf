"""What a script's source says of its own flags, without running it; and which usual names mean which wheel."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES: Mapping[str, tuple[str, ...]] = {
    "micro_batch": (
        "per_device_train_batch_size", "micro_batch_size", "micro_batch", "train_micro_batch_size", "train_batch_size", "batch_size",
        "batchsize", "batch", "bs", "b", "train_bs", "device_batch_size", "per_gpu_train_batch_size", "batch_size_per_gpu",
    ),
    "accumulation": (
        "gradient_accumulation_steps", "grad_accumulation_steps", "grad_accum_steps", "accumulation_steps", "accum_steps",
        "grad_accum", "accum", "accumulation", "accumulate", "accumulate_grad_batches", "gradient_accumulation", "grad_acc",
        "grad_acc_steps",
        "accum_iter", "acc_steps", "accumulation_iters", "ga",
    ),
    "segment": ("segment", "segment_samples", "segment_length", "segment_size", "chunk_size", "chunk_length"),
    "sequence_length": (
        "block_size", "seq_len", "seq_length", "sequence_length", "max_seq_length", "max_seq_len", "context_length", "ctx_len",
        "max_length",
        "max_len", "model_max_length", "seqlen",
    ),
    "image_size": ("img_size", "imgsz", "image_size", "img", "crop_size", "train_crop_size", "input_size", "resolution", "res"),
    "checkpointing": (
        "gradient_checkpointing", "activation_checkpointing", "grad_checkpointing", "grad_checkpoint", "use_checkpoint", "checkpointing",
        "grad_ckpt", "gradient_checkpoint", "use_checkpointing", "activation_checkpoint",
    ),
    "val_micro_batch": (
        "per_device_eval_batch_size", "val_batch_size", "eval_batch_size", "valid_batch_size", "validation_batch_size", "test_batch_size",
        "val_batch", "eval_batch", "val_bs", "eval_bs",
    ),
}  # fmt: skip
"""Wheel -> names that usually mean it (normalised), most telling first."""

HF_DEFAULTS: Mapping[str, Any] = {
    "--per_device_train_batch_size": 8,
    "--per_device_eval_batch_size": 8,
    "--gradient_accumulation_steps": 1,
    "--gradient_checkpointing": False,
}
"""What TrainingArguments says where the command line doesn't (transformers 5)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A setting that a script understands."""

    spelling: str
    """In the words of ``spelling``."""
    default: Any = None
    where: str = ""
    names: tuple[str, ...] = ()
    """Every name it goes by, such as -b beside --batch-size."""


_EVALUATION = frozenset(("val", "valid", "validation", "eval", "evaluation", "test", "dev", "infer", "inference", "predict", "prediction"))
_NO_SIZE = frozenset((
    "num", "number", "n", "limit", "max", "min", "log", "every", "interval", "freq", "norm", "bn", "sampler", "total", "global",
    "effective", "virtual", "path", "dir", "scale", "warmup", "init", "auto", "find", "prefetch", "queue", "momentum", "generation", "gen",
))  # fmt: skip
_LENGTH = frozenset(("len", "length", "size", "window"))


def meaning(name: str) -> str | None:
    """The wheel that a flag's or key's name means, or None: by the list of usual names, else by the words it is made of."""
    return usual(name) or _of_words(frozenset(_words(name)))


def usual(name: str) -> str | None:
    """The wheel that a name of ``NAMES`` means."""
    plain = re.sub(r"[-.]", "_", name.lstrip("-")).lower()
    return next((wheel for wheel, names in NAMES.items() if plain in names), None)


def _words(name: str) -> list[str]:
    """The words of a name: img-size, img_size and imgSize have the same."""
    return [word for word in re.split(r"[-_.]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-")).lower()) if word]


def _of_words(words: frozenset[str]) -> str | None:
    evaluation = bool(words & _EVALUATION)
    batch = ({"batch", "size"} <= words or words & {"batchsize", "bs", "bsz"} or {"samples", "per"} <= words) and not words & _NO_SIZE
    if batch:
        return "val_micro_batch" if evaluation else "micro_batch"
    if evaluation:
        return None
    if any(word.startswith("accum") for word in words) or {"grad", "acc"} <= words:
        return None if words & {"dtype", "type", "precision", "fp32"} else "accumulation"
    if "checkpointing" in words or (words & {"grad", "gradient", "activation", "act"} and words & {"checkpoint", "ckpt"}):
        return "checkpointing"
    return _length_of_words(words)


def _length_of_words(words: frozenset[str]) -> str | None:
    if words & {"imgsz", "imgsize", "imagesize"} or (words & {"img", "image", "crop", "input"} and words & {"size", "resolution"}):
        return None if words & _NO_SIZE - {"max"} else "image_size"
    if "bptt" in words or (words & {"seq", "sequence", "context", "ctx", "block"} and words & _LENGTH):
        return None if words & _NO_SIZE - {"max", "n"} else "sequence_length"
    return "segment" if words & {"segment", "chunk"} and words & {*_LENGTH, "samples", "seconds"} and not words & _NO_SIZE else None


_STEPS = frozenset(("step", "steps", "iter", "iters", "iterations", "updates"))
_HOW_MANY = frozenset(("max", "num", "n", "total", "train", "training"))
_NO_LENGTH = frozenset(("warmup", "warm", "log", "eval", "save", "val", "every", "interval", "freq", "decay", "accumulation", "accum"))


def counts_steps(name: str) -> bool:
    """Whether a flag says how long training is in steps, not in passes over the data."""
    words = set(_words(name))
    if words == {"iterations"}:
        return True
    return bool(words & _STEPS and words & _HOW_MANY) and not words & (_NO_LENGTH | _EVALUATION)


def of_source(path: Path) -> list[Flag]:
    """Every flag that a script declares: argparse, click and typer options, TrainingArguments, and a nanoGPT-like configurator's names."""
    try:
        source = path.read_text(encoding="utf-8", errors="replace")
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return []
    found = [flag for node in ast.walk(tree) if isinstance(node, ast.Call) and (flag := _declared(node, path.name)) is not None]
    if re.search(r"\b(Seq2Seq)?TrainingArguments\b", source) and re.search(r"HfArgumentParser|TrlParser", source):
        found += [
            Flag(spelling=_switch_or(name, default), default=default, where="TrainingArguments") for name, default in HF_DEFAULTS.items()
        ]
    if "LightningCLI" in source:
        found += [Flag(spelling="--trainer.accumulate_grad_batches", default=1, where="Lightning"), *_of_classes(tree, path.name)]
    if configurable(source):
        found += globals_of(tree, path.name)
    return found


def configurable(source: str) -> bool:
    """Whether the command line sets the script's own names, as nanoGPT's configurator does."""
    return "configurator.py" in source or re.search(r"sys\.argv\[1:\]", source) is not None


_SECTIONS = {"DataModule": "data", "LightningModule": "model"}


def _of_classes(tree: ast.Module, file: str) -> list[Flag]:
    """What LightningCLI makes of the parameters of a data module (``--data.batch_size``) and of a model."""
    found = []
    for node in ast.walk(tree):
        bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
        section = next((section for name, section in _SECTIONS.items() if any(base.endswith(name) for base in bases)), None)
        made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"] if section else []  # type: ignore[attr-defined]
        for function in made:
            named = [*function.args.args[len(function.args.args) - len(function.args.defaults) :], *function.args.kwonlyargs]
            pairs = zip(named, [*function.args.defaults, *function.args.kw_defaults], strict=True)
            found += [Flag(spelling=f"--{section}.{name.arg}", default=_literal(value), where=file) for name, value in pairs]
    return found


def of_config(path: Path) -> list[Flag]:
    """The names that a nanoGPT-like configuration file, which is Python, sets."""
    try:
        return globals_of(ast.parse(path.read_text(encoding="utf-8", errors="replace")), path.name)
    except (OSError, SyntaxError, ValueError):
        return []


def _switch_or(name: str, default: Any) -> str:
    return f"switch:{name}" if default is False else name


def _declared(node: ast.Call, file: str) -> Flag | None:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    if name not in ("add_argument", "option", "Option"):
        return None
    flags = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and arg.value.startswith("-")]
    if not flags:
        return None
    chosen = max(flags, key=len)
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    action = keywords.get("action")
    action_name = action.value if isinstance(action, ast.Constant) else action.attr if isinstance(action, ast.Attribute) else ""
    if action_name == "store_true" or "is_flag" in keywords:
        return Flag(spelling=f"switch:{chosen.split('/')[0]}", default=False, where=file, names=tuple(flags))
    if action_name == "BooleanOptionalAction":
        return Flag(spelling=f"switch:{chosen}/--no-{chosen.lstrip('-')}", default=_literal(keywords.get("default")), where=file)
    return Flag(spelling=chosen, default=_literal(keywords.get("default")), where=file, names=tuple(flags))


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def globals_of(tree: ast.Module, file: str) -> list[Flag]:
    """``batch_size = 12`` at the top of a script whose names the command line may set as ``--batch_size=8``."""
    found = []
    for node in tree.body:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = [(node.targets[0], node.value)]
        for target, value in pairs:
            if isinstance(target, ast.Name) and isinstance(value, (ast.Constant, ast.BinOp)) and (literal := _number(value)) is not None:
                found.append(Flag(spelling=f"--{target.id}=", default=literal, where=file))
    return found


def _number(node: ast.expr) -> Any:
    """A literal, or a product of whole numbers such as ``5 * 8``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return left * right if isinstance(left, int) and isinstance(right, int) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)) else None
