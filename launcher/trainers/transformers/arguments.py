"""What a built-in transformers trainer's arguments are: its own, and transformers', read from the installed source without importing it.

``TrainingArguments`` is a dataclass, and its fields with their types stand in its source as plain statements: enough to refuse a
misspelt name or a wrong type before anything is launched. Values that need transformers to be judged are judged in the first trial.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from launcher.errors import BadInput, Fault, did_you_mean
from launcher.machine import install
from launcher.trainers.transformers.native.hf_run import CommonArguments
from launcher.trainers.transformers.native.hf_speech import SpeechArguments
from launcher.trainers.transformers.native.hf_text import TextArguments
from launcher.trainers.transformers.table import OLDER, TABLE, TreatmentKind

OWN: Mapping[str, type[CommonArguments]] = {"speech": SpeechArguments, "text": TextArguments}
"""Task -> the arguments of its built-in trainer."""

ELSEWHERE: Mapping[str, str] = {
    **{name: entry.why for name, entry in {**OLDER, **TABLE}.items() if entry.kind is TreatmentKind.REFUSED},
    "gradient_accumulation_steps": "It is the ladder's: set ask.accumulation; every rung keeps micro_batch x accumulation.",
}
"""Arguments that a recipe sets elsewhere, or can't have: name -> what to do instead."""

GONE: Mapping[str, str] = {
    "no_cuda": "Gone in transformers 5: set device=cpu.",
    "evaluation_strategy": "It is eval_strategy since transformers 4.41.",
    "warmup_ratio": "Gone in transformers 5: set warmup_steps (below 1 it is a part of all steps).",
    "group_by_length": "It is train_sampling_strategy=group_by_length in transformers 5.",
    "overwrite_output_dir": "Gone in transformers 5, and never needed here: every launch has a new folder.",
    "logging_dir": "Gone in transformers 5.",
    "save_safetensors": "Gone in transformers 5: safetensors it is.",
    "tokenizer": "Gone in transformers 5; the model's own tokenizer is used.",
    "per_gpu_train_batch_size": "Set ask.micro_batch.",
    **dict.fromkeys(
        ("load_in_4bit", "load_in_8bit", "quantization_config"),
        "Weights of 4 or 8 bits aren't trained themselves: adapters beside them are, which is another training. The built-in trainers have "
        "adapters beside whole weights (ask.lora); QLoRA needs a script of yours.",
    ),
    "max_label_length": "Set ask.label_length.",
    "max_seq_length": "Set ask.sequence_length.",
    "max_length": "Set ask.sequence_length (text) or ask.label_length (speech).",
    "model_max_length": "Set ask.sequence_length.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One argument."""

    types: frozenset[str]
    """Of int, float, bool, str, list, dict, None; empty if its annotation doesn't tell."""
    default: Any
    """None also if the source computes it."""


def package() -> Path:
    """Folder of the installed transformers. Raises BadInput if there is none."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        raise BadInput([Fault(key="trainer.adapter", found="transformers is not installed", cure=f"{install.extra('transformers')}.")])
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(maxsize=2)
def known(task: str) -> Mapping[str, Argument]:
    """Every argument of the trainer for ``task``: "speech" or "text"."""
    root = package()
    found = _fields(root / "training_args.py", "TrainingArguments")
    if task == "speech":
        found |= _fields(root / "training_args_seq2seq.py", "Seq2SeqTrainingArguments")
    for field in dataclasses.fields(OWN[task]):
        default = None if field.default is dataclasses.MISSING else field.default
        found[field.name] = Argument(types=_types(str(field.type)), default=default)
    return found


def checkpointing(task: str) -> str:
    """The argument's name: activation_checkpointing from transformers 5.21 (about) on."""
    return next((name for name in ("activation_checkpointing", "gradient_checkpointing") if name in known(task)), "gradient_checkpointing")


def value_of(args: Mapping[str, Any], key: str, task: str) -> Any:
    """The argument as the trainer will see it: the recipe's, or the default."""
    return args.get(key, known(task)[key].default)


@lru_cache(maxsize=1)
def optimizers() -> tuple[str, ...]:
    """The values that ``optim`` may have."""
    for node in ast.parse((package() / "training_args.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "OptimizerNames":
            return tuple(
                str(line.value.value) for line in node.body if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
            )
    return ()


def _fields(path: Path, name: str) -> dict[str, Argument]:
    """The annotated fields of one dataclass."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            lines = [line for line in node.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)]
            return {line.target.id: Argument(types=_types(ast.unparse(line.annotation)), default=_default(line.value)) for line in lines}  # type: ignore[union-attr]
    raise BadInput(
        [
            Fault(
                key="trainer.adapter",
                found=f"{path} has no class {name}",
                cure=f"Install another: {install.command('transformers>=4.50,<6')}.",
            )
        ]
    )


_SIMPLE = ("int", "float", "bool", "str", "list", "dict", "None")


def _types(annotation: str) -> frozenset[str]:
    """The simple types that an annotation allows; its parameters (``dict[str, ...]``) don't count."""
    outer = annotation.replace('"', "").replace("'", "")
    while "[" in outer:
        at = outer.index("[")
        outer = outer[:at] + outer[outer.rindex("]") + 1 :]
    names = [part.strip().rsplit(".", 1)[-1] for part in outer.split("|")]
    return frozenset(name for name in names if name in _SIMPLE)


def _default(value: ast.expr | None) -> Any:
    if isinstance(value, ast.Call):
        given = {word.arg: word.value for word in value.keywords}
        value = given.get("default")
    try:
        return None if value is None else ast.literal_eval(value)
    except ValueError:
        return None


_STRATEGIES = ("eval_strategy", "save_strategy", "logging_strategy")


def faults(args: Mapping[str, Any], *, task: str, on_cpu: bool = False) -> list[Fault]:
    """All faults of ``trainer.args``. ``on_cpu``: the budget is host memory, so everything that takes host memory must be in the trial."""
    found: list[Fault] = []
    arguments = known(task)
    for key, value in args.items():
        place = f"trainer.args.{key}"
        if key in ELSEWHERE:
            found.append(Fault(key=place, found=f"{value!r} can't be set here", cure=ELSEWHERE[key]))
        elif key not in TABLE and key not in OLDER and key in arguments:
            unknown = f"{value!r}: the installed transformers has it and autofit doesn't know it, so no trial can stand for it"
            found.append(Fault(key=place, found=unknown, cure="Leave it out, or install a later autofit."))
        elif key not in arguments:
            gone = GONE.get(key)
            cure = (
                gone or f"{did_you_mean(key, arguments)}They are TrainingArguments' and those of a run folder's native/hf_{task}.py --help."
            )
            found.append(Fault(key=place, found=f"{value!r}: there is no argument of that name", cure=cure))
        elif value is False and key in _STRATEGIES:
            found.append(Fault(key=place, found="false (YAML takes a bare no for false)", cure=f'Write {key}: "no".'))
        elif problem := _type_problem(arguments[key], value):
            found.append(Fault(key=place, found=f"{value!r} is not {problem}", cure=_number_cure(value, arguments[key])))
    return found + _particular(args, task) + (_never_tried(args) if on_cpu else [])


def _type_problem(argument: Argument, value: Any) -> str:
    """What type the value should have; empty if it is right."""
    if not argument.types or ("str" in argument.types and isinstance(value, str)):
        return ""
    name = "None" if value is None else type(value).__name__
    if name in argument.types or (name == "int" and "float" in argument.types):
        return ""
    return " or ".join(sorted(argument.types - {"None"}))


def _number_cure(value: Any, argument: Argument) -> str:
    if isinstance(value, str) and argument.types & {"int", "float"}:
        return "Write a number without quotes, such as 5.0e-6 (YAML takes 5e-6 for a text)."
    return f"Default: {argument.default!r}."


_EVERY = ("no", "steps", "epoch")


def _particular(args: Mapping[str, Any], task: str) -> list[Fault]:
    found = []
    for key, allowed in (
        ("eval_strategy", _EVERY),
        ("save_strategy", (*_EVERY, "best")),
        ("on_bad_data", ("stop", "skip")),
        ("dtype", ("float32", "bfloat16")),
    ):
        value = args.get(key)
        if isinstance(value, str) and value not in allowed:
            found.append(Fault(key=f"trainer.args.{key}", found=repr(value), cure=f"One of {', '.join(allowed)}."))
    if isinstance(args.get("include_num_input_tokens_seen"), str):
        cure = "Write true (all) or false: transformers' command line takes no other."
        found.append(Fault(key="trainer.args.include_num_input_tokens_seen", found=repr(args["include_num_input_tokens_seen"]), cure=cure))
    for key in ("bf16_full_eval", "fp16_full_eval"):
        if args.get(key) is True and task == "speech":
            cast = "it casts the model, while audio features stay float32: the evaluation after the training fails"
            found.append(Fault(key=f"trainer.args.{key}", found=cast, cure="Set ask.precision, which casts both."))
    if args.get("train_sampling_strategy") == "group_by_length" and task == "speech":
        found.append(
            Fault(
                key="trainer.args.train_sampling_strategy",
                found="group_by_length would decode every clip first, and all are a full window to the model",
                cure="Take random.",
            )
        )
    if args.get("train_sampling_strategy") == "batch_rebalance":
        found.append(
            Fault(
                key="trainer.args.train_sampling_strategy",
                found="batch_rebalance varies the micro-batch",
                cure="Take random or group_by_length: only a fixed micro-batch can be tried.",
            )
        )
    steps, epochs = value_of(args, "max_steps", task), value_of(args, "num_train_epochs", task)
    if isinstance(steps, int) and steps <= 0 and isinstance(epochs, (int, float)) and epochs <= 0:
        found.append(Fault(key="trainer.args.num_train_epochs", found=f"{epochs} epochs and no max_steps", cure="Set one of them."))
    if args.get("load_best_model_at_end") and args.get("eval_strategy", "no") != args.get("save_strategy", "steps"):
        found.append(
            Fault(
                key="trainer.args.load_best_model_at_end",
                found="eval_strategy and save_strategy differ",
                cure="Set both to the same: a best model must have been saved.",
            )
        )
    return found


REPORTS_TRIED = frozenset({"none", "tensorboard"})
"""What ``report_to`` may name where the budget is the host's memory: those that a trial runs as well."""


def _never_tried(args: Mapping[str, Any]) -> list[Fault]:
    """Faults of arguments that take host memory and need a network or an account, so that no trial can measure them."""
    found = []
    if args.get("push_to_hub") is True:
        whole = "it uploads from within the run, whose memory is the budget, and a trial asks no network"
        found.append(Fault(key="trainer.args.push_to_hub", found=whole, cure="Upload when it is done: hf upload NAME FOLDER."))
    asked = args.get("report_to") or "none"
    others = sorted({str(one) for one in (asked if isinstance(asked, list) else [asked])} - REPORTS_TRIED)
    if others:
        took = f"{', '.join(others)} takes memory of the budget that a trial can't show: it needs a network or an account"
        found.append(Fault(key="trainer.args.report_to", found=took, cure="Take none or tensorboard on a CPU."))
    return found
